// Large models of which only the headers are there: their values are holes that take no room on the disk.
import { execFileSync } from 'node:child_process';
import { closeSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { at, scratch } from './harness.mjs';

// One file of BF16 weights in 256 layers.
export function sparseFile(gibibytes) {
  const path = join(scratch(), 'large.safetensors');
  const bytes = gibibytes * 2 ** 30;
  const layers = 256;
  const header = {};
  const size = bytes / layers;
  for (let i = 0; i < layers; i += 1) header[`model.layers.${i}.weight`] = { dtype: 'BF16', shape: [size / 2 / 4096, 4096], data_offsets: [i * size, (i + 1) * size] };
  let text = Buffer.from(JSON.stringify(header));
  text = Buffer.concat([text, Buffer.alloc((8 - (text.length % 8)) % 8, 0x20)]);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const file = openSync(path, 'w');
  writeSync(file, length);
  writeSync(file, text);
  ftruncateSync(file, 8 + text.length + bytes);
  closeSync(file);
  return path;
}

// A folder of 163 shards with 92,000 tensors.
export function sparseShards() {
  const folder = join(scratch(), 'deepseek');
  execFileSync('python3', [at('tests/tools/make_sparse_checkpoint.py'), folder]);
  return folder;
}
