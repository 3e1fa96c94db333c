// The program in Node has the native program's commands, by the same table: help, tools of colibri, chains, mistakes.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { contents, golden, native, node, packageFolder, withScratch } from './support.js';

const root = join(golden, 'tftf');
const colibri = join(golden, 'colibri/cases');
const sample = join(golden, '../../docs/sample/qwen3-tiny-fp8');

/** Names of the commands in a help text. */
function listed(help: string): string[] {
  const list = /\n(?:Commands|Tools):\n((?: .*\n)+)/.exec(help)?.[1] ?? '';
  return [...list.matchAll(/^ {2}(\S+)/gm)].map(match => match[1]!);
}

const NATIVE_OPTIONS = /^ +--(simd|delete-source|manifest-only|baseline|write-baseline)\b/;
const NATIVE_COMMANDS = ['rans-verify', 'resize', 'combine', 'extract'];
const paths = ['', ...listed(native('tftf', ['help'], root).out).flatMap(name =>
  [name, ...listed(native('tftf', ['help', name], root).out).map(tool => `${name} ${tool}`)])];

test('there are commands', () => expect(paths.length).toBeGreaterThan(25));

test.each(paths.filter(path => !NATIVE_COMMANDS.some(name => path.endsWith(name))))('help of "%s" is the native one', path => {
  const words = path.split(' ').filter(word => word !== '');
  const found = node([...words, '--help'], root);
  expect(found.status).toBe(0);
  const skipped = (text: string) => {
    const kept: string[] = [];
    let dropping = false;
    for (const line of text.split('\n')) {
      if (NATIVE_OPTIONS.test(line) || NATIVE_COMMANDS.some(name => line.startsWith(`  ${name} `))) dropping = true;
      else if (!/^ {34}/.test(line)) dropping = false;
      if (!dropping) kept.push(line);
    }
    return kept.join('\n');
  };
  expect(found.out).toBe(skipped(native('tftf', [...words, '--help'], root).out));
});

interface Told {
  status: number;
  out: string;
  files: Record<string, string>;
}
/** Both programs; {out} is a folder of their own, {pairs} and {names} are batches. */
function both(argv: string[]): { expected: Told; found: Told } {
  return withScratch(folder => {
    writeFileSync(join(folder, 'pairs.json'), JSON.stringify([{ O: 64, I: 98, weight_bytes: 6272, scale_bytes: 4, stamp: null, routed: false }]));
    writeFileSync(join(folder, 'names.json'), JSON.stringify([['model.layers.3.mlp.gate.weight', 78, false, false]]));
    const [expected, found] = [native, node].map((runner, i) => {
      const base = join(folder, String(i));
      const args = argv.map(word => word.replace('{out}', join(base, 'out')).replace('{', `${folder}/`).replace('}', '.json'));
      const run = runner === native ? native('tftf', args, root) : node(args, root);
      return { status: run.status, out: run.out.replaceAll(base, ''), files: contents(base) };
    }) as [Told, Told];
    return { expected, found };
  });
}

test.each([
  ['run', '-i', sample, '-o', '{out}', '--dequant', 'fp32', '--quantize', 'colibri-int8-row', '--reshard', '100KB', '--json'],
  ['run', '-i', sample, '-o', '{out}', '--repack', 'colibri-fp8', '--key-filter', '--exclude', '*norm*', '--json'],
  ['passthrough', '-i', sample, '-o', '{out}', '--dtype', 'F16', '--allow-unscaled', '--json'],
  ['colibri', 'convert', '--indir', join(colibri, 'src-fp8/in'), '--outdir', '{out}', '--n-layers', '2', '--json'],
  ['colibri', 'convert', '--indir', join(colibri, 'src-small/in'), '--outdir', '{out}', '--xbits', 'e8', '--dry-run'],
  ['colibri', 'repack-fp8', '--indir', join(colibri, 'src-fp8/in'), '--outdir', '{out}', '--json'],
  ['colibri', 'repack-fp8', '--indir', join(colibri, 'rp-badscale/in'), '--outdir', '{out}', '--json'],
  ['colibri', 'fmt4-to-fmt2', '--indir', join(colibri, 'f42-main/in'), '--outdir', '{out}', '--json'],
  ['colibri', 'rans-repack', '--indir', join(colibri, 'rans-repack/in'), '--outdir', '{out}', '--json'],
  ['colibri', 'quantize', '--format', 'int4-grouped', '--group-size', '64', '-i', join(colibri, 'q-int4g64/in/w.safetensors'), '-o', '{out}.safetensors', '--json'],
  ['colibri', 'resolve', '--rows', '64', '--cols', '98', '--weight-bytes', '6272', '--scale-bytes', '4'],
  ['colibri', 'resolve', '--batch', '{pairs}'],
  ['colibri', 'classify', '--batch', '{names}'],
  ['colibri', 'stamps', join(colibri, 'st-ok/in'), '--query', 'a'],
  ['colibri', 'stamps', join(colibri, 'st-conflict-one/in'), '--query', 'a'],
  ['formats'],
  ['formats', '--json'],
  ['version'],
])('%s %s %s as the native program does it', (...argv) => {
  const { expected, found } = both(argv);
  expect(found.files).toEqual(expected.files);
  expect(found.status).toBe(expected.status);
  const failed = argv.includes('--json') && JSON.parse(expected.out).error !== undefined;
  if (failed) expect(JSON.parse(found.out).error.code).toBe(JSON.parse(expected.out).error.code);
  // The memory that a plan needs is the host's.
  else expect(found.out.replace(/^memory .*$/m, '')).toBe(expected.out.replace(/^memory .*$/m, ''));
});

test.each([
  ['inof', 'x'], ['info', '--flod', 'x'], ['merge-lora', '-i', 'x'], ['info', 'x', '--filter', 'a', '--filter', 'b'],
  ['passthrough', '-i', 'x', '-o', 'y', '--max-shard-size', '0'], ['run', '-i', 'x', '-o', 'y', '--dequant-fp8', '--rule', 'a', 'b'],
  ['stats', 'x', '--heat-map', '0x1'], ['colibri', 'convert', '-i', 'x'], ['colibri'], ['lint'], ['help', 'nothing'],
])('the mistake in %s %s is told in the same words', (...argv) => {
  const expected = native('tftf', argv, root);
  expect(expected.status).toBe(2);
  expect(node(argv, root)).toEqual(expected);
});

test('what only the native program can do is refused', () => {
  for (const argv of [['colibri', 'rans-verify', 'x'], ['info', '--simd', 'scalar', 'x']]) {
    const run = node(argv, root);
    expect(run.status).toBe(2);
    expect(run.err).toContain('native program alone');
  }
});

test('a reader that goes away is no failure', () => {
  const program = `'${process.execPath}' '${join(packageFolder, 'bin/tftf.js')}'`;
  for (const words of ['run --help', 'formats', `info --offsets '${sample}'`]) {
    const run = spawnSync('/bin/bash', ['-c', `set -o pipefail; ${program} ${words} | exec 0<&-`], { encoding: 'utf8' });
    expect({ status: run.status, err: run.stderr }).toEqual({ status: 0, err: '' });
  }
});

test('completion knows the commands that are there', () => {
  const script = node(['completion', 'bash'], root).out;
  expect(script).toContain('repack-fp8');
  expect(script).toContain('quantize');
  expect(script).not.toContain('rans-verify');
});
