import { readError } from '../files.js';
import type { RangeSource, SourceEntry, SourceTree } from '../source.js';
import { inParallel } from '../parallel.js';
import { checkSignal } from '../task.js';
import { BlobSource, BlobTree } from './blob-tree.js';
import { byBytes, isLeftBehind, ownEntries } from './tree-entries.js';

const LOOKS = 32;

function reasonOf(error: unknown): string {
  const name = (error as { name?: string }).name;
  if (name === 'NotAllowedError' || name === 'SecurityError') return 'permission denied';
  if (name === 'NotFoundError') return 'no such file or directory';
  return error instanceof Error ? error.message : String(error);
}

/** A folder's handle: listed when first needed, each file taken once, so that later changes are noticed. */
class FolderTree implements SourceTree {
  readonly block = 8 << 20;
  readonly parallel = 4;
  private readonly files = new Map<string, Promise<File>>();
  private listing: Promise<SourceEntry[]> | undefined;
  private readonly byPath = new Map<string, SourceEntry>();
  private readonly handles = new Map<string, FileSystemFileHandle>();

  constructor(private readonly folder: FileSystemDirectoryHandle, readonly given: string, readonly main?: string) {}

  /** The handle that this tree reads, to compare with where something is to be written. */
  get handle(): FileSystemDirectoryHandle { return this.folder; }

  private file(path: string): Promise<File> {
    let file = this.files.get(path);
    if (file === undefined) {
      file = this.handles.get(path)!.getFile();
      this.files.set(path, file);
      file.catch(() => this.files.delete(path));
    }
    return file;
  }

  private async everything(signal?: AbortSignal): Promise<SourceEntry[]> {
    const entries: SourceEntry[] = [];
    const files: string[] = [];
    const folders: [string, FileSystemDirectoryHandle][] = [['', this.folder]];
    for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
      const [prefix, folder] = next;
      for await (const [name, handle] of folder.entries()) {
        checkSignal(signal);
        const path = prefix + name;
        if (isLeftBehind(name)) continue;
        if (handle.kind === 'directory') {
          entries.push({ path, folder: true, size: 0 });
          folders.push([`${path}/`, handle as FileSystemDirectoryHandle]);
          continue;
        }
        this.handles.set(path, handle as FileSystemFileHandle);
        files.push(path);
      }
    }
    // Each file costs the browser a round trip: folders may hold ten thousand.
    await inParallel(files, LOOKS, async path => {
      checkSignal(signal);
      try {
        entries.push({ path, folder: false, size: (await this.file(path)).size });
      } catch (error) {
        entries.push({ path, folder: false, size: 0, unreadable: reasonOf(error) });
      }
    });
    for (const entry of entries) this.byPath.set(entry.path, entry);
    return entries.sort(byBytes);
  }

  walk(signal?: AbortSignal): Promise<SourceEntry[]> {
    this.listing ??= this.everything(signal);
    this.listing.catch(() => { this.listing = undefined; });
    return this.listing;
  }
  async list(signal?: AbortSignal): Promise<SourceEntry[]> { return ownEntries(await this.walk(signal)); }
  async find(path: string, signal?: AbortSignal): Promise<SourceEntry | undefined> {
    await this.walk(signal);
    return this.byPath.get(path);
  }
  async open(path: string): Promise<RangeSource> {
    await this.walk();
    if (!this.handles.has(path)) throw readError(path, 'no such file or directory');
    try {
      return new BlobSource(await this.file(path), path);
    } catch (error) {
      throw readError(path, reasonOf(error));
    }
  }
}

/**
 * A picked or dropped file or folder. Rejects with 'io-read' when a file cannot be read. `main`: a file of the folder that
 * is meant alone (an index file brings its shards).
 */
export async function handleTree(handle: FileSystemFileHandle | FileSystemDirectoryHandle, main?: string): Promise<SourceTree> {
  if (handle.kind === 'directory') return new FolderTree(handle as FileSystemDirectoryHandle, handle.name, main);
  try {
    const file = await (handle as FileSystemFileHandle).getFile();
    return new BlobTree(handle.name, [{ path: file.name, blob: file }], file.name);
  } catch (error) {
    throw readError(handle.name, reasonOf(error));
  }
}
