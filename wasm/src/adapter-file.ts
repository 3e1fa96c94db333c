import type { AdapterSource } from './adapter.js';
import { loadAdapter } from './adapters.js';
import { call, loadCore, type Core } from './core.js';
import { TftfError } from './error.js';
import { checkTree } from './files.js';
import { quoteName } from './names.js';
import { PartTree } from './part-tree.js';
import type { TaskOptions } from './progress.js';
import type { SourceTree } from './source.js';
import { Task } from './task.js';

/** An adapter as one file, whatever it was saved as. */
export interface AdapterFile {
  /** adapter_model.safetensors: tensors by name, as they were trained. */
  file: Blob;
  /** The text of its adapter_config.json; null when there is none. */
  config: string | null;
  /** Sentences about how it was found and read. */
  notices: string[];
}

/**
 * Reads an adapter whole: the last one of a training folder, a distributed checkpoint (PyTorch DCP), or the files of a
 * training run's ranks put together. Rejects as a plan with that adapter does.
 */
export async function readAdapter(from: AdapterSource, options: TaskOptions & { maxHeader?: number } = {}): Promise<AdapterFile> {
  const core: Core = await loadCore();
  const { load } = await loadAdapter(core, from, options.maxHeader, new Task(options));
  try {
    const { pieces, config, notices }: { pieces: [number, number][]; config: string | null; notices: string[] } = JSON.parse(call(core, () => load.content()));
    // A Blob takes a copy of each piece.
    const file = new Blob(pieces.map(([at, length]) => core.HEAPU8.subarray(at, at + length) as Uint8Array<ArrayBuffer>));
    return { file, config, notices };
  } finally {
    load.delete();
  }
}

/** A folder of a tree, or one of its files with what lies beside it, as an input of its own. */
export function partOf(tree: SourceTree, path: string, folder: boolean): SourceTree {
  return new PartTree(tree, path, folder, `${tree.given.replace(/\/$/, '')}/${path}`);
}

/**
 * The files of a training run's ranks: all .safetensors files of a folder, ordered by the numbers in their names. Rejects with
 * 'refused-missing' when there are none.
 */
export async function ranksIn(tree: SourceTree, shardDim = 0): Promise<AdapterSource> {
  checkTree(tree);
  const entries = await tree.list();
  const core = await loadCore();
  const found = entries.filter(entry => !entry.folder && entry.path.endsWith('.safetensors')).map(entry => entry.path);
  if (found.length === 0) {
    throw new TftfError('refused-missing', `The folder ${quoteName(tree.given)} has no .safetensors file.`, { file: tree.given });
  }
  const names: string[] = JSON.parse(call(core, () => core.naturalOrder(JSON.stringify(found))));
  const notices = names.length > 1 ? [`Ranks in this order: ${names.map(quoteName).join(', ')}.`] : [];
  return { ranks: names.map(name => partOf(tree, name, false)), shardDim, given: tree.given, notices };
}
