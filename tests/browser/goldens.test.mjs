// The package inside Chromium gives the native tools' text for every golden case, and their bytes for conversions.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { basename, dirname, extname, join } from 'node:path';
import { at, native, sample, scratch, test } from './harness.mjs';

const types = { '.js': 'text/javascript', '.mjs': 'text/javascript', '.wasm': 'application/wasm', '.html': 'text/html' };

// The package at /package/, and an empty page beside it.
async function servePackage() {
  const server = createServer((request, response) => {
    const path = new URL(request.url, 'http://server').pathname;
    if (path === '/') return response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>package</title>');
    const file = at('build/wasm', path.slice(1));
    if (!path.startsWith('/package/') || path.includes('..') || !existsSync(file)) return response.writeHead(404).end();
    response.writeHead(200, { 'Content-Type': types[extname(file)] ?? 'application/octet-stream' }).end(readFileSync(file));
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { server, address: `http://127.0.0.1:${server.address().port}/` };
}

function filesBelow(folder) {
  if (statSync(folder).isFile()) return { [folder.split('/').pop()]: readFileSync(folder).toString('base64') };
  const files = {};
  for (const name of readdirSync(folder, { recursive: true }).sort()) {
    if (statSync(join(folder, name)).isFile()) files[name] = readFileSync(join(folder, name)).toString('base64');
  }
  return files;
}

test('every golden case gives the native reports', async ({ context }) => {
  const { server, address } = await servePackage();
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
    server.closeAllConnections();
    server.close();
  }
});

const conversions = [
  { operations: [{ id: 'dequant-fp8' }], command: 'dequant-fp8', args: ['dequant-fp8'] },
  { operations: [{ id: 'dequant-fp8', options: [{ name: 'dtype', values: ['float32'] }] }], command: 'dequant-fp8', args: ['dequant-fp8', '--dtype', 'float32'] },
  { operations: [{ id: 'rename', options: [{ name: 'rule', values: ['^model\\.', 'm.'] }] }], command: 'run', args: ['run', '--key-rename', '^model\\.', 'm.'] },
  { operations: [{ id: 'filter', options: [{ name: 'include', values: ['*norm*'] }] }], command: 'run', args: ['run', '--key-filter', '*norm*'] },
];

test('conversions give the native bytes', async ({ context }) => {
  const { server, address } = await servePackage();
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
    server.closeAllConnections();
    server.close();
  }
});

/** An operation of a golden case's command line: `--name value` behind -i and -o. */
function operationOf(argv) {
  const options = [];
  for (let i = 1; i < argv.length; i++) {
    if (argv[i] === '-i' || argv[i] === '-o') i++;
    else if (argv[i].startsWith('--')) options.push({ name: argv[i].slice(2), values: argv[i + 1]?.startsWith('-') ?? true ? [] : [argv[++i]] });
  }
  return { id: argv[0], options };
}

test('every quantised golden case gives the native bytes, or is refused as there', async ({ context }) => {
  const { server, address } = await servePackage();
  let compared = 0;
  let refused = 0;
  try {
    const page = await context.newPage();
    await page.goto(address);
    for (const set of ['quant', 'quant2']) {
      const root = at('tests/golden', set);
      for (const { id, argv } of JSON.parse(readFileSync(join(root, 'manifest.json'), 'utf8')).cases) {
        if (!['dequant', 'quantize', 'repack'].includes(argv[0])) continue;
        const given = join(root, argv[argv.indexOf('-i') + 1]);
        const folder = statSync(given).isFile() ? dirname(given) : given;
        const input = join(scratch(), 'in', set, id);
        mkdirSync(input, { recursive: true });
        for (const name of readdirSync(folder)) {
          const own = statSync(given).isFile() ? name === basename(given) || !name.endsWith('.safetensors') : !name.startsWith('expected');
          if (own) cpSync(join(folder, name), join(input, name), { recursive: true });
        }
        const operation = operationOf(argv);
        const out = join(scratch(), 'out', set, id);
        const words = operation.options.flatMap(({ name, values }) => [`--${name}`, ...values]);
        const run = native('tftf', [argv[0], '-i', input, '-o', out, ...words]);
        const found = await page.evaluate(
          async ([files, request]) => {
            const tftf = await import('/package/dist/index.js');
            const bytes = Object.fromEntries(Object.entries(files).map(([path, text]) => [path, Uint8Array.from(atob(text), (c) => c.charCodeAt(0))]));
            try {
              const checkpoint = await tftf.openCheckpoint(tftf.memoryTree('model', bytes));
              const plan = await checkpoint.plan({ ...request, output: 'memory' });
              const sink = tftf.memorySink();
              await tftf.run(plan, sink);
              const hashes = {};
              for (const [name, content] of sink.files) {
                const digest = await crypto.subtle.digest('SHA-256', content);
                hashes[name] = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
              }
              return { hashes };
            } catch (error) {
              return { refused: String(error) };
            }
          },
          [filesBelow(input), { operations: [operation], command: argv[0] }],
        );
        if (run.status !== 0) {
          assert.ok(found.refused, `${id}: refused natively, converted here`);
          refused += 1;
          continue;
        }
        const expected = Object.fromEntries(readdirSync(out).sort().map((name) => [name, createHash('sha256').update(readFileSync(join(out, name))).digest('hex')]));
        assert.deepEqual(found.hashes, expected, `${id}: ${found.refused ?? ''}`);
        compared += 1;
      }
    }
    assert.ok(compared > 100 && refused > 20, `${compared} compared, ${refused} refused`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
