// The package inside Chromium gives the native tools' text for every golden case, and their bytes for conversions.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { at, native, sample, scratch, test } from './harness.mjs';
import { filesBelow, servePackage } from './product.mjs';

test('every golden case gives the native reports', async ({ context }) => {
  const { stop, address } = await servePackage();
  try {
    const page = await context.newPage();
    await page.goto(address);
    await page.evaluate(async () => {
      window.tftf = await import('/package/dist/index.js');
    });
    const folder = at('tests/golden/safetensors/cases');
    let compared = 0;
    for (const name of readdirSync(folder).sort()) {
      const input = join(folder, name);
      if (!statSync(input).isDirectory() || readdirSync(input).length === 0) continue;
      const expectedLint = native('tftf-lint', ['--format', 'json', name], { cwd: folder });
      const expectedInfo = native('tftf', ['info', '--json', name], { cwd: folder });
      const answer = await page.evaluate(
        async ([given, files]) => {
          const bytes = Object.fromEntries(Object.entries(files).map(([path, text]) => [path, Uint8Array.from(atob(text), (c) => c.charCodeAt(0))]));
          const tree = () => window.tftf.memoryTree(given, bytes);
          const report = await window.tftf.lint(tree());
          const lint = report.render('json');
          report.close();
          let info = null;
          try {
            const checkpoint = await window.tftf.openCheckpoint(tree());
            info = checkpoint.infoJson();
            await checkpoint.close();
          } catch (error) {
            info = { code: error.code };
          }
          return { lint, info };
        },
        [name, filesBelow(input)],
      );
      assert.equal(answer.lint, expectedLint.stdout.toString(), `lint ${name}`);
      const nativeInfo = expectedInfo.stdout.toString();
      if (typeof answer.info === 'string') assert.equal(answer.info, nativeInfo, `info ${name}`);
      else assert.equal(JSON.parse(nativeInfo).error.code, answer.info.code, `info ${name}`);
      compared += 1;
    }
    console.log(`      ${compared} cases`);
    assert.ok(compared > 50);
  } finally {
    stop();
  }
});

const conversions = [
  { operations: [{ id: 'dequant-fp8' }], command: 'dequant-fp8', args: ['dequant-fp8'] },
  { operations: [{ id: 'dequant-fp8', options: [{ name: 'dtype', values: ['float32'] }] }], command: 'dequant-fp8', args: ['dequant-fp8', '--dtype', 'float32'] },
  { operations: [{ id: 'rename', options: [{ name: 'rule', values: ['^model\\.', 'm.'] }] }], command: 'run', args: ['run', '--key-rename', '^model\\.', 'm.'] },
  { operations: [{ id: 'filter', options: [{ name: 'include', values: ['*norm*'] }] }], command: 'run', args: ['run', '--key-filter', '*norm*'] },
];

test('conversions give the native bytes', async ({ context }) => {
  const { stop, address } = await servePackage();
  try {
    const page = await context.newPage();
    await page.goto(address);
    for (const [i, { operations, command, args }] of conversions.entries()) {
      const out = join(scratch(), `out-${i}`);
      assert.equal(native('tftf', [args[0], '-i', sample, '-o', out, ...args.slice(1)]).status, 0);
      const hashes = await page.evaluate(
        async ([files, request]) => {
          const tftf = await import('/package/dist/index.js');
          const bytes = Object.fromEntries(Object.entries(files).map(([path, text]) => [path, Uint8Array.from(atob(text), (c) => c.charCodeAt(0))]));
          const checkpoint = await tftf.openCheckpoint(tftf.memoryTree('model', bytes));
          const plan = await checkpoint.plan({ ...request, output: 'memory' });
          const sink = tftf.memorySink();
          await tftf.run(plan, sink);
          const found = {};
          for (const [name, content] of sink.files) {
            const digest = await crypto.subtle.digest('SHA-256', content);
            found[name] = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
          }
          return found;
        },
        [filesBelow(sample), { operations, command }],
      );
      const expected = Object.fromEntries(readdirSync(out).sort().map((name) => [name, createHash('sha256').update(readFileSync(join(out, name))).digest('hex')]));
      assert.deepEqual(hashes, expected, args.join(' '));
    }
  } finally {
    stop();
  }
});
