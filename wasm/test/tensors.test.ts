// One tensor's values: decoded, counted, seen from afar, and through a quantised layout.
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { memorySink, memoryTree, openCheckpoint, pathTree, run } from 'tftf';
import { golden, safetensors } from './support.js';

const rows = 300;
const columns = 1000;
const floats = new Float32Array(rows * columns).map((_, i) => Math.sin(i) * 3);
floats[5] = NaN;
floats[6] = Infinity;
floats[7] = 0;
const tree = () => memoryTree('m', {
  'model.safetensors': safetensors({
    a: { dtype: 'F32', shape: [rows, columns], data_offsets: [0, floats.byteLength] },
    b: { dtype: 'F4', shape: [2, 4], data_offsets: [floats.byteLength, floats.byteLength + 4] },
  }, new Uint8Array([...new Uint8Array(floats.buffer), 0x10, 0x32, 0x54, 0x76])),
});

test('values and bytes', async () => {
  const checkpoint = await openCheckpoint(tree());
  const tensor = checkpoint.tensor(0);
  expect(tensor).toMatchObject({ name: 'a', dtype: 'F32', shape: [rows, columns], elements: rows * columns, matrix: { rows, columns } });
  expect([...await tensor.values(3, 6)]).toEqual([...floats.subarray(3, 9)]);
  expect([...await tensor.bytes(4, 4)]).toEqual([...new Uint8Array(floats.buffer, 4, 4)]);
  await expect(tensor.values(rows * columns - 1, 2)).rejects.toMatchObject({ code: 'usage' });
  // Half bytes: values 0 0.5 1 1.5 2 3 4 6 from the low half up, from an odd place on.
  expect([...await checkpoint.tensor(1).values(0, 8)]).toEqual([0, 0.5, 1, 1.5, 2, 3, 4, 6]);
  expect([...await checkpoint.tensor(1).values(3, 2)]).toEqual([1.5, 2]);
  await checkpoint.close();
});

test('statistics', async () => {
  const checkpoint = await openCheckpoint(tree());
  const statistics = await checkpoint.tensor(0).statistics({ bins: 10 });
  const finite = [...floats].filter(Number.isFinite);
  const mean = finite.reduce((sum, x) => sum + x, 0) / finite.length;
  expect(statistics).toMatchObject({ count: floats.length, nan: 1, infinite: 1, zero: 2 });
  expect(statistics.min).toBe(finite.reduce((least, x) => Math.min(least, x)));
  expect(statistics.mean).toBeCloseTo(mean, 10);
  expect(statistics.histogram!.counts.reduce((sum, x) => sum + x, 0)).toBe(finite.length);
  const { low, high, counts } = statistics.histogram!;
  const third = finite.filter(x => Math.min(9, Math.floor((x - low) / (high - low) * 10)) === 2).length;
  expect(Math.abs(counts[2]! - third)).toBeLessThan(3);
  await checkpoint.close();
});

test('a heat map', async () => {
  const checkpoint = await openCheckpoint(tree());
  const map = await checkpoint.tensor(0).heatMap({ height: 30, width: 50 });
  expect(map).toMatchObject({ height: 30, width: 50, cellRows: 10, cellColumns: 20, sampled: false });
  const cell = (r: number, c: number): number[] => {
    const found: number[] = [];
    for (let i = 0; i < 10; ++i) for (let j = 0; j < 20; ++j) found.push(floats[(r * 10 + i) * columns + c * 20 + j]!);
    return found;
  };
  for (const [r, c] of [[0, 1], [7, 13], [29, 49]] as const) {
    const values = cell(r, c);
    expect(map.mean[r * 50 + c]).toBeCloseTo(values.reduce((sum, x) => sum + x, 0) / values.length, 5);
    expect(map.low[r * 50 + c]).toBe(Math.min(...values));
    expect(map.high[r * 50 + c]).toBe(Math.max(...values));
  }
  expect([map.nonFinite[0], map.nonFinite[1]]).toEqual([1, 0]);
  const part = await checkpoint.tensor(0).heatMap({ rowBegin: 2, rowEnd: 4, columnBegin: 10, columnEnd: 13 });
  expect([part.height, part.width]).toEqual([2, 3]);
  expect([...part.mean]).toEqual([...floats.subarray(2010, 2013), ...floats.subarray(3010, 3013)]);
  expect([...(await checkpoint.tensor(1).heatMap()).mean]).toEqual([0, 0.5, 1, 1.5, 2, 3, 4, 6]);
  await checkpoint.close();
});

test('values through FP8 scales are what a conversion writes', async () => {
  const sample = await pathTree(join(golden, '../../docs/sample/qwen3-tiny-fp8'));
  const checkpoint = await openCheckpoint(sample);
  const index = checkpoint.info().tensors.findIndex(row => row.layout !== null && row.logical !== null);
  const { name } = checkpoint.info().tensors[index]!;
  const logical = await checkpoint.logicalTensor(index);
  const dtypes: Record<string, string> = { BF16: 'bfloat16', F16: 'float16', F32: 'float32' };
  const sink = memorySink();
  const plan = await checkpoint.plan({
    operations: [{ id: 'dequant-fp8', options: [{ name: 'dtype', values: [dtypes[logical.dtype]!] }] }], output: 'x', singleName: 'x.safetensors',
  });
  await run(plan, sink);
  const result = await openCheckpoint(memoryTree('x', { 'x.safetensors': sink.files.get('x.safetensors')! }));
  const at = result.info().tensors.findIndex(row => row.name === name);
  const written = await result.tensor(at).values(0, logical.elements);
  expect(logical.elements).toBeGreaterThan(0);
  expect(Buffer.compare(Buffer.from((await logical.values(0, logical.elements)).buffer), Buffer.from(written.buffer))).toBe(0);
  expect([...await logical.values(17, 100)]).toEqual([...written.subarray(17, 117)]);
  expect(await logical.statistics()).toEqual(await result.tensor(at).statistics());
  await logical.close();
  const plain = checkpoint.info().tensors.findIndex(row => row.layout === null);
  await expect(checkpoint.logicalTensor(plain)).rejects.toMatchObject({ code: 'refused-unsupported' });
});
