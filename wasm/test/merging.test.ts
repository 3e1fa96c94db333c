// Adapters from trees without paths, as a page has them: found, refused, merged to the native program's bytes.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { lint, memorySink, memoryTree, openCheckpoint, partOf, ranksIn, readAdapter, run, type AdapterSource, type SourceTree } from 'tftf';
import { contents, golden, native, withScratch } from './support.js';

const inputs = join(golden, 'tftf/inputs');

function filesOf(folder: string, prefix = ''): Record<string, Uint8Array> {
  const files: Record<string, Uint8Array> = {};
  for (const name of readdirSync(join(inputs, folder), { recursive: true }) as string[]) {
    if (statSync(join(inputs, folder, name)).isFile()) files[prefix + name] = readFileSync(join(inputs, folder, name));
  }
  return files;
}
const tree = (folder: string): SourceTree => memoryTree(folder, filesOf(folder));
const lone = (given: string, path: string, ...beside: string[]): SourceTree =>
  memoryTree(given, Object.fromEntries([path, ...beside].map(one => [one.split('/').pop()!, readFileSync(join(inputs, one))])), given);

async function planOf(base: string, adapter: AdapterSource, options: { name: string; values: string[] }[] = []) {
  const checkpoint = await openCheckpoint(tree(base));
  try {
    return await checkpoint.plan({ operations: [{ id: 'merge-lora', options, adapter }], output: 'memory' });
  } finally {
    await checkpoint.close();
  }
}

async function merged(base: string, adapter: AdapterSource): Promise<Record<string, string>> {
  const plan = await planOf(base, adapter);
  const sink = memorySink();
  await run(plan, sink);
  await plan.close();
  return Object.fromEntries([...sink.files].map(([name, bytes]) => [name, Buffer.from(bytes).toString('latin1')]));
}

const expected = (args: string[]): Record<string, string> => withScratch(folder => {
  const run = native('tftf', [...args, '-o', join(folder, 'out')], inputs);
  if (run.status !== 0) throw new Error(run.err);
  return contents(join(folder, 'out'));
});

test.each([
  ['a folder', 'base_f32', { tree: tree('ad_basic') }, ['-a', 'ad_basic']],
  ['a file with its configuration beside it', 'base_f32',
    { tree: lone('adapter_model.safetensors', 'ad_basic/adapter_model.safetensors', 'ad_basic/adapter_config.json') }, ['-a', 'ad_basic']],
  ['a file and a configuration apart', 'base_f32',
    { tree: lone('adapter_model.safetensors', 'ad_basic/adapter_model.safetensors'), config: lone('adapter_config.json', 'ad_basic/adapter_config.json') },
    ['-a', 'ad_basic']],
  ['a file of a folder', 'base_f32', { tree: tree('ad_basic'), file: 'adapter_model.safetensors' }, ['-a', 'ad_basic']],
  ['a training folder', 'base_f32', { tree: tree('train_lora') }, ['-a', 'train_lora']],
  ['a distributed checkpoint within a training folder', 'base_f32', { tree: tree('dcp/train') }, ['-a', 'dcp/train']],
] as [string, string, AdapterSource, string[]][])('%s is merged to the native bytes', async (_, base, adapter, args) => {
  expect(await merged(base, adapter)).toEqual(expected(['merge-lora', '-b', base, ...args]));
});

test.each([
  ['a training folder', async () => ({ tree: tree('train_lora') }), ['merge-lora', '-a', 'train_lora'], /checkpoint-100/],
  ['a distributed checkpoint', async () => ({ tree: partOf(tree('dcp/single'), 'pytorch_model_fsdp_0', true), config: partOf(tree('dcp/single'), 'adapter_config.json', false) }),
    ['merge-dcp-lora', '-c', 'dcp/single/pytorch_model_fsdp_0'], /^$/],
  ['ranks', () => ranksIn(tree('fsdp_sort')), ['merge-fsdp-lora', '--shard-dir', 'fsdp_sort'], /"rank_9.safetensors", "rank_10.safetensors"/],
] as [string, () => Promise<AdapterSource>, string[], RegExp][])('%s becomes one sound file that merges alike', async (_, from, args, notice) => {
  const { file, config, notices } = await readAdapter(await from());
  expect(notices.join(' ')).toMatch(notice);
  const made = memoryTree('made', { 'adapter_model.safetensors': new Uint8Array(await file.arrayBuffer()), 'adapter_config.json': config! });
  const report = await lint(made);
  expect(report.document().issues.messages.filter(({ rule }) => rule.startsWith('ST'))).toEqual([]);
  report.close();
  expect(await merged('base_f32', { tree: made })).toEqual(expected([...args, '-b', 'base_f32']));
});

test('a folder without ranks is refused', async () => {
  await expect(ranksIn(memoryTree('empty', {}))).rejects.toMatchObject({ code: 'refused-missing' });
});

test('small tensors are read many at a time', async () => {
  const whole = tree('ad_basic');
  let reads = 0;
  const counted: SourceTree = {
    given: 'ad_basic', block: whole.block, parallel: whole.parallel,
    list: () => whole.list(), walk: () => whole.walk(), find: path => whole.find(path),
    open: async path => {
      const source = await whole.open(path);
      return { size: source.size, read: (...range) => (++reads, source.read(...range)), check: () => source.check(), close: () => source.close() };
    },
  };
  await (await planOf('base_f32', { tree: counted })).close();
  // Configuration, the header's length and text, the tensors.
  expect(reads).toBeLessThanOrEqual(5);
});

test('the account tells what was covered, and warns when there is no configuration', async () => {
  const plan = await planOf('base_f32', { tree: tree('ad_basic') });
  const [merge] = plan.account().merges!;
  expect(merge).toMatchObject({ adapter: 'ad_basic' });
  expect(Number(merge!.merged)).toBeGreaterThan(0);
  expect(Number(merge!.merged) + Number(merge!.left_out)).toBeLessThanOrEqual(Number(merge!.modules));
  await plan.close();
  const bare = await planOf('base_f32', { tree: lone('adapter_model.safetensors', 'ad_basic/adapter_model.safetensors') });
  expect(bare.account().warnings.join()).toMatch(/has no adapter_config.json/);
  await bare.close();
});

test.each([
  ['a torch file that is none is refused', { 'adapter_model.bin': new Uint8Array(8) }, 'refused-input', /ZIP archive/],
  ['nothing is nothing', { readme: new Uint8Array(8) }, 'refused-missing', /nothing like an adapter/],
  ['a broken configuration is refused', { ...filesOf('ad_basic'), 'adapter_config.json': '{"r":' }, 'refused-config', /not valid JSON/],
  ['a broken file is refused', { ...filesOf('ad_basic'), 'adapter_model.safetensors': new Uint8Array(40) }, undefined, /./],
] as [string, Record<string, Uint8Array | string>, string | undefined, RegExp][])('%s', async (_, files, code, message) => {
  const error = await planOf('base_f32', { tree: memoryTree('lora', files) }).catch((reason: unknown) => reason);
  expect(error).toMatchObject({ message: expect.stringMatching(message) });
  if (code !== undefined) expect(error).toMatchObject({ code });
});

test('modules that the base lacks are refused before anything is written', async () => {
  await expect(planOf('base_f32', { tree: tree('ad_wrongmodel') })).rejects.toMatchObject({ code: expect.stringMatching(/^refused-/) });
});

test('a merge without an adapter, or with a number that is none, is refused', async () => {
  const checkpoint = await openCheckpoint(tree('base_f32'));
  await expect(checkpoint.plan({ operations: [{ id: 'merge-lora' }], output: 'memory' })).rejects.toMatchObject({ code: 'usage' });
  await checkpoint.close();
  await expect(planOf('base_f32', { tree: tree('ad_basic') }, [{ name: 'scale', values: ['x'] }])).rejects.toMatchObject({ code: 'usage' });
});
