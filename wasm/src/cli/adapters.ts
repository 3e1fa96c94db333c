// The adapters that merging commands name.
import * as path from 'node:path';
import { readFileSync, statSync, type Stats } from 'node:fs';
import type { AdapterSource } from '../adapter.js';
import { ranksIn } from '../adapter-file.js';
import { call, loadCore } from '../core.js';
import { TftfError } from '../error.js';
import { quoteName } from '../names.js';
import { operations } from '../opening.js';
import type { SourceTree } from '../source.js';
import { pathTree } from '../sources/node-tree.js';
import type { Operation } from '../transform.js';
import { count, usage, value, values, type CommandLine } from './arguments.js';
import { treeOf } from './inspection.js';
import type { Session } from './session.js';

const optionOf = (operation: Operation, name: string): string | undefined =>
  operation.options?.filter(option => option.name === name).at(-1)?.values[0];

export async function configOf(merge: Operation, session: Session): Promise<SourceTree | undefined> {
  const config = optionOf(merge, 'adapter-config');
  return config === undefined ? undefined : treeOf(config, session);
}

/**
 * A merge of several adapters is one merge per adapter, in the order given. What is given once is meant for all of them, what is
 * given as often as adapters for each in turn.
 */
async function onePerAdapter(merge: Operation): Promise<Operation[]> {
  const given = merge.options ?? [];
  const adapters = given.filter(({ name }) => name === 'adapter');
  if (merge.id !== 'merge-lora' || merge.adapter !== undefined || adapters.length === 0) return [merge];
  const known = (await operations()).find(({ id }) => id === merge.id)!.options;
  const times = (name: string): number => given.filter(option => option.name === name).length;
  const forAll = (name: string): boolean => {
    const info = known.find(option => option.name === name);
    return info === undefined || info.kind === 'rule' || info.kind === 'flag' || times(name) === 1;
  };
  for (const { name } of given) {
    if (name === 'adapter' || forAll(name) || times(name) === adapters.length) continue;
    throw usage(`--${name} is given ${times(name)} times for ${adapters.length} adapter${adapters.length === 1 ? '' : 's'}: once means all of them, as often as adapters means each in turn.`);
  }
  return adapters.map((adapter, i) => {
    const seen = new Map<string, number>();
    const options = given.filter(({ name }) => {
      if (name === 'adapter') return false;
      const at = seen.get(name) ?? 0;
      seen.set(name, at + 1);
      return forAll(name) || at === i;
    });
    return { ...merge, options: [adapter, ...options] };
  });
}

/** An operation with the files that its options name. */
async function withFiles(operation: Operation, session: Session): Promise<Operation> {
  const core = await loadCore();
  const { id, options = [] } = operation;
  const wanted = JSON.parse(call(core, () => core.operationFiles(JSON.stringify({ id, options })))) as { option: string; path: string }[];
  if (wanted.length === 0) return operation;
  const files: Record<string, Uint8Array> = { ...operation.files };
  for (const { option, path: file } of wanted) {
    const tree = await treeOf(file, session);
    if (tree.main === undefined) throw new TftfError('usage-path', `The file ${quoteName(file)} does not exist.`, { file });
    files[option] = readFileSync(file);
  }
  return { ...operation, files };
}

/** Operations with the adapters, models and files that their options name. */
export async function withAdapters(chain: Operation[], session: Session): Promise<Operation[]> {
  const core = await loadCore();
  const single = (await Promise.all(chain.map(onePerAdapter))).flat();
  return Promise.all(single.map(async operation => {
    if (operation.id === 'graft' && operation.from === undefined) {
      call(core, () => core.checkOperation(JSON.stringify(operation)));
      return { ...operation, from: await treeOf(optionOf(operation, 'from')!, session) };
    }
    if (operation.id !== 'merge-lora' || operation.adapter !== undefined) return withFiles(operation, session);
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

export async function adapterOfRanks(line: CommandLine): Promise<AdapterSource> {
  const folder = value(line, 'shard-dir');
  const shardDim = count(line, 'shard-dim') ?? 0;
  if (folder === undefined) return { ranks: await Promise.all(values(line, 'shards').map(rankTree)), shardDim };
  const tree = await pathTree(folder);
  if (tree.main !== undefined) throw new TftfError('usage-path', `The folder ${quoteName(folder)} does not exist.`, { file: folder });
  return ranksIn(tree, shardDim);
}

export async function distributedAdapter(line: CommandLine, session: Session): Promise<AdapterSource> {
  return { tree: await treeOf(value(line, 'checkpoint-dir')!, session), distributed: true };
}
