// Files made to make us slow, or to be taken for something else.
import { expect, test } from 'vitest';
import { lint, memoryTree, openCheckpoint } from 'tftf';
import { safetensors } from './support.js';

const four = { dtype: 'U8', shape: [4], data_offsets: [0, 4] };
const model = (header: unknown): Uint8Array => safetensors(header, new Uint8Array([1, 2, 3, 4]));

test('as many metadata keys as fit a header take as long as they are, not its square', async () => {
  const keys = 200_000;
  const metadata = Object.fromEntries(Array.from({ length: keys }, (_, i) => [`key ${i}`, 'v']));
  const checkpoint = await openCheckpoint(memoryTree('m.safetensors', { 'm.safetensors': model({ __metadata__: metadata, a: four }) }, 'm.safetensors'));
  const { metadata: found } = checkpoint.info();
  expect(Object.keys(found)).toHaveLength(keys);
  expect(found['key 199999']).toBe('v');
  await checkpoint.close();
}, 20_000);

test('a folder of eighty thousand files opens', async () => {
  const files: Record<string, Uint8Array> = { 'model.safetensors': model({ a: four }) };
  for (let i = 0; i < 80_000; ++i) files[`note ${i}.txt`] = new Uint8Array(0);
  const tree = memoryTree('m', files);
  const checkpoint = await openCheckpoint(tree);
  expect(checkpoint.info().tensor_count).toBe(1);
  await (await checkpoint.plan({ operations: [], output: 'x' })).close();
  await checkpoint.close();
  (await lint(tree)).close();
}, 60_000);

test('names of JavaScript’s own are names', async () => {
  const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty.__proto__.weight', '.', '..', 'a/../b'];
  const header = `{"__metadata__": {"__proto__": "x", "constructor": "y"}, ${names
    .map((name, i) => `${JSON.stringify(name)}: {"dtype": "U8", "shape": [4], "data_offsets": [${4 * i}, ${4 * i + 4}]}`).join(', ')}}`;
  const bytes = safetensors(header, Uint8Array.from({ length: 4 * names.length }, (_, i) => i));
  const checkpoint = await openCheckpoint(memoryTree('m.safetensors', { 'm.safetensors': bytes }, 'm.safetensors'));
  const info = checkpoint.info();
  expect(info.tensors.map(tensor => tensor.name).sort()).toEqual([...names].sort());
  expect(Object.entries(info.metadata)).toEqual([['__proto__', 'x'], ['constructor', 'y']]);
  for (const [i, tensor] of info.tensors.entries()) {
    expect([...await checkpoint.tensor(i).values(0, 1)]).toEqual([4 * names.indexOf(tensor.name)]);
  }
  await checkpoint.close();
});
