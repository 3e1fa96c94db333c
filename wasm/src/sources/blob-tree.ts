import type { TftfError } from '../error.js';
import { changedError, readError } from '../files.js';
import type { RangeSource, SourceEntry, SourceTree } from '../source.js';
import { checkSignal } from '../task.js';
import { isLeftBehind, ownEntries, withFolders } from './tree-entries.js';

// Larger ones are hardly faster, and those that wait for the collector add up.
const BLOCK = 8 << 20;

/** A Blob or File. Browsers refuse to read a File that has changed since it was picked. */
export class BlobSource implements RangeSource {
  constructor(private readonly blob: Blob, private readonly path: string) {}
  get size(): number { return this.blob.size; }

  async read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    checkSignal(signal);
    let bytes: ArrayBuffer;
    try {
      bytes = await this.blob.slice(offset, offset + length).arrayBuffer();
    } catch (error) {
      throw blobError(error, this.path);
    }
    if (bytes.byteLength !== length) throw changedError(this.path);
    return new Uint8Array(bytes);
  }

  async check(): Promise<void> {
    // One byte tells: a changed file cannot be read any more.
    if (this.size > 0) await this.read(this.size - 1, 1);
  }
  async close(): Promise<void> {}
}

function blobError(error: unknown, path: string): TftfError {
  const name = (error as { name?: string }).name;
  if (name === 'NotReadableError' || name === 'NotFoundError') return changedError(path);
  if (name === 'NotAllowedError' || name === 'SecurityError') return readError(path, 'permission denied');
  return readError(path, error instanceof Error ? error.message : String(error));
}

/** A file with its path in the tree. */
export interface TreeFile {
  path: string;
  blob: Blob;
}

/** Files that are all at hand: picked ones, a folder from an input element, memory. */
export class BlobTree implements SourceTree {
  readonly block = BLOCK;
  readonly parallel = 4;
  private readonly files: Map<string, Blob>;
  private readonly entries: SourceEntry[];
  private readonly byPath: Map<string, SourceEntry>;

  constructor(readonly given: string, files: Iterable<TreeFile>, readonly main?: string) {
    this.files = new Map([...files].map(({ path, blob }) => [path, blob]));
    this.entries = withFolders([...this.files].map(([path, blob]) => ({ path, folder: false, size: blob.size })));
    this.byPath = new Map(this.entries.map(entry => [entry.path, entry]));
  }

  async list(): Promise<SourceEntry[]> { return ownEntries(this.entries); }
  async walk(): Promise<SourceEntry[]> { return this.entries.filter(entry => !isLeftBehind(entry.path)); }
  async find(path: string): Promise<SourceEntry | undefined> {
    return this.byPath.get(path);
  }
  async open(path: string): Promise<RangeSource> {
    const blob = this.files.get(path);
    if (blob === undefined) throw readError(path, 'no such file');
    return new BlobSource(blob, path);
  }
}

const pathOf = (file: File): string => file.webkitRelativePath || file.name;

/** One picked file, alone. */
export function fileTree(file: File): SourceTree {
  return new BlobTree(file.name, [{ path: file.name, blob: file }], file.name);
}

/**
 * Picked files as the folder that they lie in; files of `<input webkitdirectory>` keep their place below it. A single file
 * that is not in a folder is that file alone.
 */
export function filesTree(files: Iterable<File>, given?: string): SourceTree {
  const list = [...files];
  if (list.length === 1 && !pathOf(list[0]!).includes('/')) return fileTree(list[0]!);
  const paths = list.map(pathOf);
  // All below one folder: that folder is the tree.
  const top = paths[0]?.split('/')[0] ?? '';
  const shared = paths.every(path => path.startsWith(`${top}/`));
  const entries = list.map((blob, i) => ({ path: shared ? paths[i]!.slice(top.length + 1) : paths[i]!, blob }));
  const named = given ?? (shared ? top : `${list.length} files`);
  return new BlobTree(named, entries);
}

/** Bytes in memory as a tree; `main`: the one file (or index file) that is meant. */
export function memoryTree(given: string, files: Record<string, Uint8Array | string>, main?: string): SourceTree {
  const entries = Object.entries(files).map(([path, content]) => ({ path, blob: new Blob([content as BlobPart]) }));
  return new BlobTree(given, entries, main);
}
