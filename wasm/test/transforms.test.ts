// The program in Node converts every golden case of the converting commands as the native one does: same status, same
// bytes, same account.
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { contents, golden, native, node, readJson, withScratch } from './support.js';

const root = join(golden, 'tftf');
interface Case {
  id: string;
  argv: string[];
}
const all: Case[] = readJson(join(root, 'manifest.json')).case_files.flatMap((file: string) => {
  const list = readJson(join(root, file));
  return Array.isArray(list) ? list : list.cases;
});
const cases = all.filter(({ argv }) => ['passthrough', 'dequant-fp8', 'run', 'validate', 'info'].includes(argv[0]!) || argv[0]?.startsWith('merge-'));

test('there are cases', () => expect(cases.length).toBeGreaterThan(120));

test.each(cases)('$id', ({ argv }) => withScratch(folder => {
  const results = [native, node].map((runner, i) => {
    const out = join(folder, String(i), 'out');
    const [command, ...rest] = argv.map(word => word.replace('{out}', out)) as [string, ...string[]];
    const args = [command, '--json', ...rest];
    const run = runner === native ? native('tftf', args, root) : node(args, root);
    const base = join(folder, String(i));
    return { status: run.status, out: run.out.replaceAll(base, ''), err: run.err.replaceAll(base, ''), files: contents(base) };
  });
  const [expected, found] = results as [typeof results[0], typeof results[0]];
  expect(Object.keys(found!.files)).toEqual(Object.keys(expected!.files));
  for (const [name, bytes] of Object.entries(expected!.files)) {
    expect(found!.files[name] === bytes, `the bytes of ${name}`).toBe(true);
  }
  expect(found!.status).toBe(expected!.status);
  const { error } = JSON.parse(expected!.out);
  if (error === undefined) expect(found!.out).toBe(expected!.out);
  else expect(JSON.parse(found!.out).error.code).toBe(error.code);
}));

const experts = join(golden, 'experts/models');
const sample = join(golden, '../../docs/sample/qwen3-tiny-fp8');
test.each([
  ['dequant', '-i', sample, '-o', '{out}'],
  ['dequant', '-i', sample, '-o', '{out}', '--dtype', 'float32', '--exclude', '*down_proj*'],
  ['quantize', '-i', sample, '-o', '{out}', '--to', 'colibri-int8-row'],
  ['quantize', '-i', sample, '-o', '{out}', '--to', 'colibri-int4-grouped', '--group-size', '32'],
  ['quantize', '-i', sample, '-o', '{out}', '--to', 'no-such-layout'],
  ['repack', '-i', sample, '-o', '{out}', '--to', 'colibri-fp8'],
  ['convert', '-i', join(experts, 'mixtral-v4'), '-o', '{out}', '--to', 'transformers-5'],
  ['convert', '-i', join(experts, 'gpt_oss-v5'), '-o', '{out}', '--experts', 'split'],
  ['convert', '-i', join(experts, 'gemma3-v4'), '-o', '{out}', '--part', 'text'],
  ['run', '-i', join(experts, 'mixtral-v4'), '-o', '{out}', '--dtype-cast', 'float32', '--convert', 'transformers-5'],
])('%s of a model as the native program does it', (...argv) => withScratch(folder => {
  const [expected, found] = [native, node].map((runner, i) => {
    const base = join(folder, String(i));
    const args = [...argv.map(word => word.replace('{out}', join(base, 'out'))), '--json'];
    const run = runner === native ? native('tftf', args, root) : node(args, root);
    return { status: run.status, out: run.out.replaceAll(base, ''), files: contents(base) };
  }) as [{ status: number; out: string; files: Record<string, string> }, { status: number; out: string; files: Record<string, string> }];
  expect(found.status).toBe(expected.status);
  expect(found.files).toEqual(expected.files);
  const { error } = JSON.parse(expected.out);
  if (error === undefined) expect(found.out).toBe(expected.out);
  else expect(JSON.parse(found.out).error.code).toBe(error.code);
}));
