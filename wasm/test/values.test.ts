// Statistics, heat maps and comparisons are those of the native program, byte for byte.
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { compare, memorySink, memoryTree, openCheckpoint, pathTree, run, statistics } from 'tftf';
import { golden, native, node } from './support.js';

const root = join(golden, '..', '..');
const sample = 'docs/sample/qwen3-tiny-fp8';
const weight = 'model.layers.0.mlp.down_proj.weight';
process.chdir(root);

test.each([
  ['stats', sample],
  ['stats', '--json', sample],
  ['stats', '--json', '--logical', '--histogram', '8', sample],
  ['stats', '--json', '--include', '*.mlp.*', '--exclude', '*_inv', sample],
  ['stats', '--tensor', weight, '--heat-map', '8x30', sample],
  ['stats', '--json', '--tensor', weight, '--heat-map', '9x7', '--logical', '--rows', '3:100', '--columns', '10:150', sample],
  ['stats', '--json', '--tensor', 'nowhere', sample],
  ['diff', '--json', sample, `${sample}/model-00001-of-00002.safetensors`],
  ['diff', '--values', '--json', '--strict', sample, sample],
  ['diff', sample, sample],
])('%s %s %s %s %s', (...args) => {
  const words = args.filter(word => word !== undefined) as string[];
  const expected = native('tftf', words, root);
  const found = node(words, root);
  expect(found.out).toBe(expected.out);
  expect(found.status).toBe(expected.status);
});

test('a conversion stands for the same model', async () => {
  const tree = await pathTree(sample);
  const checkpoint = await openCheckpoint(tree);
  const sink = memorySink();
  const plan = await checkpoint.plan({ operations: [{ id: 'dequant-fp8' }], output: 'x' });
  await run(plan, sink);
  await plan.close();
  const result = memoryTree('x', Object.fromEntries(sink.files));
  const report = await compare(tree, result, { values: true });
  expect(report.difference).toBe('');
  expect(report.document().summary.different).toBe(0);
  await report.close();
  const other = await statistics(result, { bins: 4 });
  expect(other.document().tensors.length).toBe(24);
  await other.close();
  await checkpoint.close();
});
