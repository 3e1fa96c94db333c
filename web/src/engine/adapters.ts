// Adapters that are no file of their own: training folders, distributed checkpoints, the files of ranks. They are opened as
// the file that they amount to.
import { BlobTree, partOf, ranksIn, readAdapter, TftfError, type AdapterSource, type SourceTree, type TaskOptions } from 'tftf';
import { isRank } from '../rank_name';

export interface MadeAdapter {
  from: AdapterSource; // what a merge is given
  tree: SourceTree; // what is looked at
  notices: string[];
}

// What a folder looks like by its names alone; undefined for a model or a plain adapter.
async function lookFor(tree: SourceTree, task: TaskOptions): Promise<AdapterSource | undefined> {
  if (tree.main !== undefined) return undefined;
  const entries = await tree.list(task.signal);
  const weights = entries.filter(({ path, folder }) => !folder && path.endsWith('.safetensors')).map(({ path }) => path);
  const distributed = entries.some(({ path }) => path === '.metadata') && entries.some(({ path }) => path.endsWith('.distcp'));
  const training = entries.some(({ path, folder }) => folder && /^checkpoint-\d+$/.test(path));
  if (weights.length === 0 && (distributed || training)) return { tree };
  if (weights.length === 0) {
    // A checkpoint's folder with the distributed adapter in a folder of its own, as FSDP writes it.
    const inside = (await tree.walk(task.signal)).map(({ path }) => /^([^/]+)\/\.metadata$/.exec(path)?.[1]).filter((name) => name !== undefined);
    const folder = inside.find((name) => !name.toLowerCase().includes('optimizer'));
    const configured = entries.some(({ path }) => path === 'adapter_config.json');
    if (folder !== undefined) return { tree: partOf(tree, folder, true), ...(configured && { config: partOf(tree, 'adapter_config.json', false) }) };
  }
  return weights.length > 1 && weights.every(isRank) ? ranksIn(tree) : undefined;
}

/** Nothing when the tree is something else; rejects only when cancelled, or when it can be nothing else. */
export async function adapterIn(tree: SourceTree, task: TaskOptions): Promise<MadeAdapter | undefined> {
  const from = await lookFor(tree, task);
  if (from === undefined) return undefined;
  try {
    const { file, config, notices } = await readAdapter(from, task);
    const files = [{ path: 'adapter_model.safetensors', blob: file }];
    if (config !== null) files.push({ path: 'adapter_config.json', blob: new Blob([config]) });
    return { from, tree: new BlobTree(tree.given, files), notices };
  } catch (error) {
    const elsewhere = await tree.walk(task.signal);
    const others = elsewhere.some(({ path, folder }) => !folder && path.endsWith('.safetensors'));
    if (task.signal?.aborted || !others || !(error instanceof TftfError)) throw error;
    return undefined;
  }
}
