// What the package promises: its size, its files, its types, no dependencies, no code made from text.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import * as tftf from 'tftf';
import { packageFolder, readJson } from './support.js';

const manifest = readJson(join(packageFolder, 'package.json'));

// docs/performance.md, "The module", says what it is made of: a larger number needs a reason there.
const MOST_BYTES = 1_160_000;

test('the module keeps to its size', () => {
  const size = gzipSync(readFileSync(join(packageFolder, 'dist/core.wasm')), { level: 9 }).length;
  console.log(`core.wasm: ${size} bytes compressed`);
  expect(size).toBeLessThanOrEqual(MOST_BYTES);
});

test('it depends on nothing', () => {
  for (const key of ['dependencies', 'peerDependencies', 'optionalDependencies', 'devDependencies', 'scripts']) {
    expect(manifest[key]).toBeUndefined();
  }
  for (const name of ['index.js', 'package.js', 'core.js']) {
    const imports = [...readFileSync(join(packageFolder, 'dist', name), 'utf8').matchAll(/from '([^']+)'/g)];
    for (const [, from] of imports) expect(from).toMatch(/^\.\//);
  }
});

test('what it exports is there, with types', () => {
  const files = [manifest.bin.tftf];
  const collect = (value: unknown): void => {
    if (typeof value === 'string') files.push(value);
    else Object.values(value as object).forEach(collect);
  };
  collect(manifest.exports);
  for (const file of files) expect(existsSync(join(packageFolder, file)), file).toBe(true);
});

test('every exported value is declared', () => {
  const declarations = ['node.d.ts', 'package.d.ts'].map(name => readFileSync(join(packageFolder, 'dist', name), 'utf8')).join('\n');
  for (const name of Object.keys(tftf)) expect(declarations).toMatch(new RegExp(`\\b${name}\\b`));
  expect(Object.keys(tftf)).toEqual(expect.arrayContaining(['openCheckpoint', 'lint', 'run', 'operations', 'pathTree']));
});

test('the browser part asks Node for nothing', () => {
  const seen = new Set<string>();
  const visit = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    const text = readFileSync(file, 'utf8');
    expect(text, file).not.toMatch(/from ['"]node:|import\(['"]node:/);
    for (const [, from] of text.matchAll(/from '(\.[^']+)'/g)) visit(join(file, '..', from!));
  };
  visit(join(packageFolder, 'dist/index.js'));
  expect(seen.size).toBeGreaterThan(15);
});

test('no code is made from text, so that a strict policy holds', () => {
  const module = readFileSync(join(packageFolder, 'dist/core.mjs'), 'utf8');
  expect(module).not.toMatch(/new Function\(|\beval\(/);
});

test('the version is the same everywhere', async () => {
  expect(await tftf.version()).toBe(manifest.version);
});
