import type { AdapterSource } from './adapter.js';
import { argument, call, CoreMemory, type Core, type CoreAdapterLoad } from './core.js';
import { TftfError } from './error.js';
import { checkTree, OpenFiles } from './files.js';
import { readModel } from './model.js';
import { quoteName } from './names.js';
import { PartTree } from './part-tree.js';
import { serve } from './serving.js';
import type { SourceEntry, SourceTree } from './source.js';
import type { Task } from './task.js';

const MOST_CONFIG = 16 << 20;
const MOST_TOKENIZER = 64 << 20;
const TORCH_FILE = /\.(bin|pt|pth)$/;

/** What a tree holds at a path, as its search for an adapter asks: "../NAME" too, where the tree can see it. */
async function answerOf(tree: SourceTree, path: string, entries: boolean, task: Task): Promise<SourceEntry[]> {
  if (entries) return new PartTree(tree, path, true, tree.given).list(task.signal);
  const entry = await tree.find(path, task.signal);
  return entry === undefined ? [] : [entry];
}

function configError(code: 'usage-path' | 'refused-config', file: string, what: string): TftfError {
  return new TftfError(code, `The adapter's configuration ${quoteName(file)} ${what}.`, { file });
}

async function configure(core: Core, load: CoreAdapterLoad, tree: SourceTree, path: string | undefined, file: string, task: Task): Promise<void> {
  if (path === undefined) throw configError('usage-path', file, 'is a folder');
  const source = await tree.open(path, task.signal);
  const memory = new CoreMemory(core);
  try {
    if (source.size > MOST_CONFIG) throw configError('refused-config', file, 'has more than 16 MiB');
    const bytes = await source.read(0, source.size, task.signal);
    const at = memory.reserve(Math.max(bytes.length, 1));
    core.HEAPU8.set(bytes, at);
    call(core, () => load.configure(file, at, bytes.length));
  } finally {
    memory.close();
    await source.close();
  }
}

/** A file that torch.save has written: read whole, since its tensors lie wherever its pickle says. */
async function loadArchive(core: Core, load: CoreAdapterLoad, tree: SourceTree, name: string, task: Task): Promise<void> {
  const source = await tree.open(name, task.signal);
  const memory = new CoreMemory(core);
  try {
    const bytes = await source.read(0, source.size, task.signal);
    const at = memory.reserve(Math.max(bytes.length, 1));
    core.HEAPU8.set(bytes, at);
    call(core, () => load.archive(at, bytes.length));
  } finally {
    memory.close();
    await source.close();
  }
}

/** All tensors of one file. */
async function loadFile(core: Core, load: CoreAdapterLoad, tree: SourceTree, maxHeader: number | undefined, task: Task): Promise<void> {
  if (tree.main !== undefined && TORCH_FILE.test(tree.main)) return loadArchive(core, load, tree, tree.main, task);
  const files = new OpenFiles(tree);
  try {
    const model = await readModel(core, files, { strict: true, maxHeader }, task);
    try {
      call(core, () => load.begin(model));
      await serve(core, load, files, task);
      call(core, () => load.end());
    } finally {
      model.delete();
    }
  } finally {
    await files.close();
  }
}

async function loadDistributed(core: Core, load: CoreAdapterLoad, tree: SourceTree, task: Task): Promise<void> {
  const files = new OpenFiles(tree);
  try {
    call(core, () => load.beginDistributed());
    await serve(core, load, files, task);
    call(core, () => load.end());
  } finally {
    await files.close();
  }
}

interface Found {
  distributed: boolean;
  path: string;
  file: string;
  config: string | null;
  configFile: string;
  notices: string[];
  /** Paths of the files of a tokenizer beside it. */
  tokenizer: string[];
}

/** A file of the adapter's tokenizer: read, or only named. */
async function loadTokenizerFile(core: Core, load: CoreAdapterLoad, tree: SourceTree, path: string, read: boolean, task: Task): Promise<void> {
  const name = path.slice(path.lastIndexOf('/') + 1);
  if (!read) return call(core, () => load.tokenizerFile(name, false, 0, 0));
  const source = await tree.open(path, task.signal);
  const memory = new CoreMemory(core);
  try {
    if (source.size > MOST_TOKENIZER) {
      throw new TftfError('refused-input', `${quoteName(path)} has more than 64 MiB, which no file of a tokenizer has.`, { file: path });
    }
    const bytes = await source.read(0, source.size, task.signal);
    const at = memory.reserve(Math.max(bytes.length, 1));
    core.HEAPU8.set(bytes, at);
    call(core, () => load.tokenizerFile(name, true, at, bytes.length));
  } finally {
    memory.close();
    await source.close();
  }
}

/** An adapter in the core's memory. */
export interface LoadedAdapter {
  load: CoreAdapterLoad;
  /** As the user named it. */
  given: string;
}

/** Finds and reads an adapter whole (docs/cli.md, merge-lora). `tokenizer`: with the texts of its tokenizer. */
export async function loadAdapter(core: Core, from: AdapterSource, maxHeader: number | undefined, task: Task, tokenizer = false): Promise<LoadedAdapter> {
  if (typeof from !== 'object' || from === null) throw new TftfError('usage', 'An adapter is given as {tree} or {ranks}.');
  const sharded = 'ranks' in from;
  for (const tree of sharded ? from.ranks : [from.tree]) checkTree(tree);
  const first = sharded ? from.ranks[0] : from.file === undefined ? from.tree
    : new PartTree(from.tree, from.file, false, `${from.tree.given.replace(/\/$/, '')}/${from.file}`);
  if (first === undefined) throw new TftfError('usage', 'An adapter of no ranks was given.');
  const given = (sharded ? from.given : undefined) ?? first.given;
  const load = call(core, () => core.openAdapter(argument({
    given: first.given, main: first.main ?? null,
    distributed: !sharded && (from.distributed ?? false), configured: from.config !== undefined,
  })));
  try {
    for (;;) {
      const asked = call(core, () => load.ask());
      if (asked === '') break;
      const { path, entries } = JSON.parse(asked) as { path: string; entries: boolean };
      const answer = await answerOf(first, path, entries, task);
      call(core, () => load.answer(JSON.stringify(answer)));
    }
    const found: Found = JSON.parse(call(core, () => load.found()));
    if (from.config !== undefined) await configure(core, load, from.config, from.config.main, from.config.given, task);
    else if (found.config !== null) await configure(core, load, first, found.config, found.configFile, task);
    if (sharded) {
      for (const tree of from.ranks) await loadFile(core, load, tree, maxHeader, task);
    } else if (found.distributed) {
      await loadDistributed(core, load, new PartTree(first, found.path, true, found.file), task);
    } else {
      await loadFile(core, load, new PartTree(first, found.path, false, found.file), maxHeader, task);
    }
    for (const path of found.tokenizer) await loadTokenizerFile(core, load, first, path, tokenizer, task);
    const request = sharded
      ? { given, files: from.ranks.map(tree => tree.given), shardDim: from.shardDim ?? 0, notices: from.notices ?? [] }
      : { given, files: [found.file], shardDim: null, notices: found.notices };
    call(core, () => load.make(argument(request)));
    return { load, given };
  } catch (error) {
    load.delete();
    throw error;
  }
}
