import type { AdapterSource } from './adapter.js';
import { call, CoreMemory, type Core, type CoreAdapterLoad } from './core.js';
import { TftfError } from './error.js';
import { OpenFiles } from './files.js';
import { readModel } from './model.js';
import { quoteName } from './names.js';
import { serve } from './serving.js';
import type { RangeSource, SourceEntry, SourceTree } from './source.js';
import type { Task } from './task.js';

const MOST_CONFIG = 16 << 20;

/**
 * Reads ahead: an adapter's hundreds of small tensors are all read, mostly in their order, and each read of a browser or a
 * server takes its time.
 */
class AheadSource implements RangeSource {
  private begin = 0;
  private bytes = new Uint8Array(0);
  constructor(private readonly source: RangeSource, private readonly block: number) {}
  get size(): number { return this.source.size; }
  async read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    const inside = offset >= this.begin && offset + length <= this.begin + this.bytes.length;
    if (inside) return this.bytes.subarray(offset - this.begin, offset - this.begin + length);
    const bytes = await this.source.read(offset, Math.max(length, Math.min(this.block, this.size - offset)), signal);
    // A source may give the same memory again.
    [this.begin, this.bytes] = [offset, bytes.slice()];
    return this.bytes.subarray(0, length);
  }
  check(): Promise<void> { return this.source.check(); }
  close(): Promise<void> { return this.source.close(); }
}

/** A folder of a tree as a tree, or one file of it. */
class PartTree implements SourceTree {
  private readonly prefix: string;
  readonly main?: string;
  constructor(private readonly whole: SourceTree, path: string, isFolder: boolean, readonly given: string) {
    const end = isFolder ? path.length : path.lastIndexOf('/') + 1;
    const folder = path.slice(0, end);
    this.prefix = folder === '' || folder.endsWith('/') ? folder : `${folder}/`;
    if (!isFolder) this.main = path.slice(end);
  }
  get block(): number { return this.whole.block; }
  get parallel(): number { return this.whole.parallel; }
  private inside(entries: SourceEntry[]): SourceEntry[] {
    return entries.filter(entry => entry.path.startsWith(this.prefix) && entry.path !== this.prefix)
      .map(entry => ({ ...entry, path: entry.path.slice(this.prefix.length) }));
  }
  async list(signal?: AbortSignal): Promise<SourceEntry[]> {
    if (this.prefix === '') return this.whole.list(signal);
    return (await this.walk(signal)).filter(entry => !entry.path.includes('/'));
  }
  async walk(signal?: AbortSignal): Promise<SourceEntry[]> { return this.inside(await this.whole.walk(signal)); }
  async find(path: string, signal?: AbortSignal): Promise<SourceEntry | undefined> {
    const entry = await this.whole.find(this.prefix + path, signal);
    return entry && { ...entry, path };
  }
  async open(path: string, signal?: AbortSignal): Promise<RangeSource> {
    const source = await this.whole.open(this.prefix + path, signal);
    return source.readSync === undefined ? new AheadSource(source, this.block) : source;
  }
}

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

/** All tensors of one file. */
async function loadFile(core: Core, load: CoreAdapterLoad, tree: SourceTree, maxHeader: number | undefined, task: Task): Promise<void> {
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
}

/** An adapter in the core's memory. */
export interface LoadedAdapter {
  load: CoreAdapterLoad;
  /** As the user named it. */
  given: string;
}

/** Finds and reads an adapter whole (docs/cli.md, merge-lora). */
export async function loadAdapter(core: Core, from: AdapterSource, maxHeader: number | undefined, task: Task): Promise<LoadedAdapter> {
  const sharded = 'ranks' in from;
  const first = sharded ? from.ranks[0] : from.file === undefined ? from.tree
    : new PartTree(from.tree, from.file, false, `${from.tree.given.replace(/\/$/, '')}/${from.file}`);
  if (first === undefined) throw new TftfError('usage', 'An adapter of no ranks was given.');
  const given = (sharded ? from.given : undefined) ?? first.given;
  const load = call(core, () => core.openAdapter(JSON.stringify({
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
    const request = sharded
      ? { given, files: from.ranks.map(tree => tree.given), shardDim: from.shardDim ?? 0, notices: from.notices ?? [] }
      : { given, files: [found.file], shardDim: null, notices: found.notices };
    call(core, () => load.make(JSON.stringify(request)));
    return { load, given };
  } catch (error) {
    load.delete();
    throw error;
  }
}
