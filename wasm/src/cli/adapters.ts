// The adapters that merging commands name.
import * as path from 'node:path';
import { statSync, type Stats } from 'node:fs';
import type { AdapterSource } from '../adapter.js';
import { ranksIn } from '../adapter-file.js';
import { call, loadCore } from '../core.js';
import { TftfError } from '../error.js';
import { quoteName } from '../names.js';
import type { SourceTree } from '../source.js';
import { pathTree } from '../sources/node-tree.js';
import type { Operation } from '../transform.js';
import { count, usage, value, values, type Arguments, type OptionRule } from './arguments.js';
import { treeOf } from './inspection.js';
import type { Session } from './session.js';

export const RANKS: OptionRule[] = [
  { name: 'shards', short: 's', values: 1, shows: 'FILE', help: 'File of one rank; once per rank, in their order' },
  { name: 'shard-dir', values: 1, shows: 'DIR', help: 'Folder with the files of all ranks, ordered by their numbers' },
  { name: 'shard-dim', values: 1, shows: 'N', help: 'Dimension along which the parts are put together (0)' },
];
export const DISTRIBUTED: OptionRule[] = [
  { name: 'checkpoint-dir', short: 'c', values: 1, shows: 'DIR', help: 'Folder with .metadata, or a training folder' },
];

const optionOf = (operation: Operation, name: string): string | undefined =>
  operation.options?.filter(option => option.name === name).at(-1)?.values[0];

export async function configOf(merge: Operation, session: Session): Promise<SourceTree | undefined> {
  const config = optionOf(merge, 'adapter-config');
  return config === undefined ? undefined : treeOf(config, session);
}

/** Operations with the adapters that their options name. */
export async function withAdapters(operations: Operation[], session: Session): Promise<Operation[]> {
  const core = await loadCore();
  return Promise.all(operations.map(async operation => {
    if (operation.id !== 'merge-lora' || operation.adapter !== undefined) return operation;
    call(core, () => core.checkOperation(JSON.stringify(operation)));
    const adapter: AdapterSource = { tree: await treeOf(optionOf(operation, 'adapter')!, session) };
    const config = await configOf(operation, session);
    return { ...operation, adapter: { ...adapter, ...(config && { config }) } };
  }));
}

/** The result must not take the place of the adapter that it is made with. */
export function checkApart(operations: Operation[], output: string, there: Stats): void {
  for (const { adapter } of operations) {
    if (adapter === undefined) continue;
    const places = ('ranks' in adapter ? adapter.ranks : [adapter.tree]).map(tree => tree.given);
    for (const place of places.flatMap(given => [given, path.join(given, 'adapter_model.safetensors')])) {
      const stats = statSync(place, { throwIfNoEntry: false });
      if (stats?.ino !== there.ino || stats.dev !== there.dev) continue;
      throw new TftfError('refused-output', `The output ${quoteName(output)} is the adapter itself.`, { file: output });
    }
  }
}

async function rankTree(file: string): Promise<SourceTree> {
  const tree = await pathTree(file);
  if (tree.main === undefined) throw new TftfError('usage-path', `The file ${quoteName(file)} does not exist.`, { file });
  return tree;
}

export async function adapterOfRanks(args: Arguments): Promise<AdapterSource> {
  const folder = value(args, 'shard-dir');
  const files = values(args, 'shards');
  if (files.length === 0 && folder === undefined) throw usage('Either --shards or --shard-dir is needed.');
  if (files.length > 0 && folder !== undefined) throw usage('--shards and --shard-dir exclude each other.');
  const dim = value(args, 'shard-dim');
  const shardDim = dim === undefined ? 0 : count(dim, '--shard-dim');
  if (folder === undefined) return { ranks: await Promise.all(files.map(rankTree)), shardDim };
  const tree = await pathTree(folder);
  if (tree.main !== undefined) throw new TftfError('usage-path', `The folder ${quoteName(folder)} does not exist.`, { file: folder });
  return ranksIn(tree, shardDim);
}

export async function distributedAdapter(args: Arguments, session: Session): Promise<AdapterSource> {
  const folder = value(args, 'checkpoint-dir');
  if (folder === undefined) throw usage('--checkpoint-dir is required.');
  return { tree: await treeOf(folder, session), distributed: true };
}
