// Where results go in Node: whole under their final names, or not there at all.
import { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  memorySink, memoryTree, openCheckpoint, pathSink, pathTree, run, TftfError,
  type OutputSink, type Progress, type SourceTree, type TransformPlan,
} from 'tftf';
import { safetensors, withScratch } from './support.js';

const COLUMNS = 1 << 16;
/** A matrix of BF16, 16 MiB, and a small tensor. */
function model(): Uint8Array {
  const values = new Uint16Array(128 * COLUMNS).map((_, i) => 0x3f80 + (i & 0x7f));
  const length = values.byteLength;
  const data = new Uint8Array(length + 8);
  data.set(new Uint8Array(values.buffer));
  data.set([0, 0, 128, 63, 0, 0, 0, 64], length);
  return safetensors({
    w: { dtype: 'BF16', shape: [128, COLUMNS], data_offsets: [0, length] },
    n: { dtype: 'F32', shape: [2], data_offsets: [length, length + 8] },
  }, data);
}
const bytes = model();

async function castPlan(tree: SourceTree, sink: OutputSink): Promise<TransformPlan> {
  const checkpoint = await openCheckpoint(tree);
  const plan = await checkpoint.plan({
    operations: [{ id: 'cast', options: [{ name: 'dtype', values: ['float32'] }] }],
    output: sink.name, ...(sink.singleName === undefined ? {} : { singleName: sink.singleName }),
  });
  await checkpoint.close();
  return plan;
}

test('a file and a folder hold what memory holds', () => withScratch(async folder => {
  const tree = memoryTree('m', { 'model.safetensors': bytes, 'config.json': '{}' });
  const results: Record<string, Uint8Array>[] = [];
  for (const sink of [memorySink(), pathSink(join(folder, 'out'))]) {
    const plan = await castPlan(tree, sink);
    const names = plan.outputs.map(file => file.name);
    const stages = new Set<string>();
    const result = await run(plan, sink, { onProgress: (progress: Progress) => stages.add(progress.stage) });
    expect(result.account().tensors.changed).toBe(1);
    expect([...stages]).toEqual(['writing', 'finishing']);
    results.push('files' in sink ? Object.fromEntries(sink.files as Map<string, Uint8Array>)
      : Object.fromEntries(names.map(name => [name, new Uint8Array(readFileSync(join(folder, 'out', name)))])));
    expect(plan.outputs[plan.outputs.length - 1]!.name).toBe('model.safetensors.index.json');
    await plan.close();
  }
  expect(Object.keys(results[0]!)).toEqual(Object.keys(results[1]!));
  for (const [name, content] of Object.entries(results[0]!)) {
    expect(Buffer.compare(content, results[1]![name]!), name).toBe(0);
  }
  expect(readdirSync(join(folder, 'out')).some(name => name.includes('tftf-part'))).toBe(false);
}));

test('a plan runs once', async () => {
  const sink = memorySink();
  const plan = await castPlan(memoryTree('m', { 'model.safetensors': bytes }), sink);
  await run(plan, sink);
  await expect(run(plan, sink)).rejects.toThrow('runs once');
  await plan.close();
});

test('a cancelled run leaves nothing', () => withScratch(async folder => {
  const sink = pathSink(join(folder, 'sub', 'out'));
  const plan = await castPlan(memoryTree('m', { 'model.safetensors': bytes }), sink);
  const controller = new AbortController();
  const running = run(plan, sink, {
    signal: controller.signal,
    onProgress: progress => { if (progress.stage === 'writing' && progress.done > 0) controller.abort(); },
  });
  await expect(running).rejects.toMatchObject({ code: 'interrupted' });
  expect(readdirSync(folder)).toEqual([]);
  await plan.close();
}));

test.each(['create', 'write', 'close', 'publish'] as const)('a failure of %s leaves nothing', point => withScratch(async folder => {
  const inner = pathSink(join(folder, 'out'));
  const full = () => Promise.reject(new TftfError('io-space', 'The disk is full.'));
  let writes = 0;
  const sink: OutputSink = {
    name: inner.name, block: inner.block,
    begin: (files, input) => inner.begin(files, input),
    publish: () => point === 'publish' ? full() : inner.publish(),
    abort: () => inner.abort(),
    async create(file) {
      const writer = await inner.create(file);
      if (point === 'create') return full();
      return {
        write: (offset, data) => point === 'write' && ++writes > 4 ? full() : writer.write(offset, data),
        close: () => point === 'close' ? full() : writer.close(),
      };
    },
  };
  const plan = await castPlan(memoryTree('m', { 'model.safetensors': bytes }), sink);
  await expect(run(plan, sink)).rejects.toMatchObject({ code: 'io-space' });
  expect(readdirSync(folder)).toEqual([]);
  await plan.close();
}));

test('what must not be written is refused before anything is', () => withScratch(async folder => {
  const input = join(folder, 'in');
  mkdirSync(input);
  writeFileSync(join(input, 'model.safetensors'), bytes);
  mkdirSync(join(folder, 'full'));
  writeFileSync(join(folder, 'full', 'notes.txt'), 'mine');
  const refusals: [string, object][] = [
    [join(folder, 'full'), {}], [input, { overwrite: true }], [join(input, 'below'), {}],
    [join(input, 'model.safetensors'), { single: true, overwrite: true }],
  ];
  for (const [path, options] of refusals) {
    const sink = pathSink(path, options);
    const plan = await castPlan(await pathTree(input), sink);
    await expect(run(plan, sink), path).rejects.toMatchObject({ code: 'refused-output' });
    await plan.close();
  }
  expect(readFileSync(join(folder, 'full', 'notes.txt'), 'utf8')).toBe('mine');
  expect(Buffer.compare(readFileSync(join(input, 'model.safetensors')), bytes)).toBe(0);
  expect(existsSync(join(input, 'below'))).toBe(false);
}));

test('a folder that holds the input is refused, whatever its name', () => withScratch(async folder => {
  const file = join(folder, 'model-00002-of-00003.safetensors');
  writeFileSync(file, bytes);
  const sink = pathSink(folder, { overwrite: true });
  const plan = await castPlan(await pathTree(file), sink);
  await expect(run(plan, sink)).rejects.toThrow('it holds an input');
  expect(readdirSync(folder)).toEqual(['model-00002-of-00003.safetensors']);
  await plan.close();
}));

test('an input that changes is noticed', () => withScratch(async folder => {
  const file = join(folder, 'model.safetensors');
  writeFileSync(file, bytes);
  const sink = pathSink(join(folder, 'out'));
  const plan = await castPlan(await pathTree(file), sink);
  utimesSync(file, 1, 1);
  await expect(run(plan, sink)).rejects.toMatchObject({ code: 'io-changed' });
  expect(existsSync(join(folder, 'out'))).toBe(false);
  await plan.close();
}));

test('--overwrite replaces its own names alone', () => withScratch(async folder => {
  const out = join(folder, 'out');
  mkdirSync(out);
  writeFileSync(join(out, 'notes.txt'), 'mine');
  writeFileSync(join(out, 'config.json'), 'old');
  writeFileSync(join(out, 'model-00002-of-00002.safetensors'), 'stale');
  writeFileSync(join(out, 'other-00002-of-00002.safetensors'), 'mine');
  const sink = pathSink(out, { overwrite: true });
  const plan = await castPlan(memoryTree('m', { 'model.safetensors': bytes, 'config.json': '{"a": 1}' }), sink);
  await run(plan, sink);
  expect(readFileSync(join(out, 'notes.txt'), 'utf8')).toBe('mine');
  expect(readFileSync(join(out, 'config.json'), 'utf8')).toBe('{"a": 1}');
  expect(existsSync(join(out, 'model-00002-of-00002.safetensors'))).toBe(false);
  expect(existsSync(join(out, 'other-00002-of-00002.safetensors'))).toBe(true);
  await plan.close();
}));
