import { TftfError } from '../error.js';
import { quoteName } from '../names.js';
import type { OutputFile, OutputSink, OutputWriter } from '../sink.js';
import type { SourceTree } from '../source.js';
import { staleShards } from './stale-shards.js';

const BLOCK = 8 << 20;
const PART = '.tftf-part';

/** Members that TypeScript's library lacks. */
interface Movable {
  move?(name: string): Promise<void>;
  remove?(): Promise<void>;
  queryPermission?(options: { mode: 'readwrite' }): Promise<PermissionState>;
}

export function sinkError(error: unknown, file: string): TftfError {
  if (error instanceof TftfError) return error;
  const name = (error as { name?: string }).name;
  const say = (code: 'io-space' | 'io-write' | 'refused-output', reason: string) =>
    new TftfError(code, `Cannot write ${quoteName(file)}: ${reason}.`, { file });
  if (name === 'QuotaExceededError') return say('io-space', 'there is no space left');
  if (name === 'NotAllowedError' || name === 'SecurityError') return say('io-write', 'permission to write there was not given');
  if (name === 'NoModificationAllowedError') return say('io-write', 'another page or tab is writing it');
  if (name === 'NotFoundError') return say('io-write', 'the folder or file is not there any more');
  if (name === 'TypeMismatchError') return say('refused-output', 'a folder of that name is there');
  return say('io-write', error instanceof Error ? error.message : String(error));
}

/** Opening a writer without this permission ends some browsers. Ask for it from a click (requestPermission). */
async function checkPermission(handle: FileSystemHandle): Promise<void> {
  const state = await (handle as Movable).queryPermission?.({ mode: 'readwrite' });
  if (state !== undefined && state !== 'granted') {
    throw new TftfError('io-write', `Permission to write ${quoteName(handle.name)} was not given; allow it and try again.`,
      { file: handle.name });
  }
}

/** A stream to one file. Neighbouring writes are put together to blocks. */
class HandleWriter implements OutputWriter {
  private pending: Uint8Array = new Uint8Array(0);
  private readonly spare: Uint8Array[] = [];
  private filled = 0;
  private position = 0;
  constructor(private readonly stream: FileSystemWritableFileStream, private readonly file: string,
    private readonly closed: () => void) {}

  write(offset: number, bytes: Uint8Array): Promise<void> {
    const full: [number, Uint8Array][] = [];
    // Copied before anything is awaited: the bytes may be a view of memory that grows meanwhile, and void then.
    if (this.filled > 0 && offset !== this.position + this.filled) full.push(this.take());
    for (let done = 0; done < bytes.length;) {
      if (this.filled === 0) this.position = offset + done;
      if (this.pending.length === 0) this.pending = this.spare.pop() ?? new Uint8Array(BLOCK);
      const part = bytes.subarray(done, done + BLOCK - this.filled);
      this.pending.set(part, this.filled);
      this.filled += part.length;
      done += part.length;
      if (this.filled === BLOCK) full.push(this.take());
    }
    return this.putAll(full);
  }
  private take(): [number, Uint8Array] {
    const block: [number, Uint8Array] = [this.position, this.pending.subarray(0, this.filled)];
    this.pending = new Uint8Array(0);
    this.filled = 0;
    return block;
  }
  private async putAll(blocks: [number, Uint8Array][]): Promise<void> {
    for (const [position, bytes] of blocks) {
      await this.put(position, bytes);
      this.spare.push(new Uint8Array(bytes.buffer as ArrayBuffer));
    }
  }
  private async put(position: number, data: Uint8Array): Promise<void> {
    try {
      await this.stream.write({ type: 'write', position, data: data as Uint8Array<ArrayBuffer> });
    } catch (error) {
      throw sinkError(error, this.file);
    }
  }
  async close(): Promise<void> {
    if (this.filled > 0) await this.putAll([this.take()]);
    this.spare.length = 0;
    try {
      await this.stream.close();
    } catch (error) {
      throw sinkError(error, this.file);
    }
    this.closed();
  }
}

/** Streams that are open, so that a failure can undo them. */
class OpenStreams {
  private readonly streams = new Set<FileSystemWritableFileStream>();

  async open(handle: FileSystemFileHandle, file: string, size: number): Promise<OutputWriter> {
    let stream: FileSystemWritableFileStream;
    try {
      // 'exclusive': a second writer of the same file is an error, not a race.
      stream = await handle.createWritable({ keepExistingData: false, mode: 'exclusive' } as FileSystemCreateWritableOptions);
    } catch (error) {
      throw sinkError(error, file);
    }
    this.streams.add(stream);
    try {
      // Where the browser takes the space now, a full disk is known before the work.
      if (size > 0) await stream.truncate(size);
    } catch (error) {
      throw sinkError(error, file);
    }
    return new HandleWriter(stream, file, () => this.streams.delete(stream));
  }
  async abort(): Promise<void> {
    await Promise.allSettled([...this.streams].map(stream => stream.abort()));
    this.streams.clear();
  }
}

/** One file that was picked for saving (showSaveFilePicker). */
export function fileSink(handle: FileSystemFileHandle): OutputSink {
  const streams = new OpenStreams();
  let wasEmpty = false;
  return {
    name: handle.name,
    singleName: handle.name,
    block: BLOCK,
    async begin(files: OutputFile[], input: SourceTree): Promise<void> {
      if (files.length !== 1) {
        throw new TftfError('usage', `The result is ${files.length} files; pick a folder for it.`);
      }
      if (await isInput(handle, input)) throw refused(handle.name, 'it is an input');
      try {
        const there = await handle.getFile();
        wasEmpty = there.size === 0;
      } catch (error) {
        throw sinkError(error, handle.name);
      }
      await checkPermission(handle);
    },
    create: file => streams.open(handle, handle.name, file.size),
    async publish(): Promise<void> {},
    async abort(): Promise<void> {
      await streams.abort();
      // The picker has made it; a file that was there before is as it was.
      if (wasEmpty) await (handle as Movable).remove?.().catch(() => undefined);
    },
  };
}

function refused(name: string, reason: string): TftfError {
  return new TftfError('refused-output', `Cannot write to ${quoteName(name)}: ${reason}.`, { file: name });
}

interface HandleInput {
  handle?: FileSystemHandle;
}

async function isInput(handle: FileSystemHandle, input: SourceTree): Promise<boolean> {
  const other = (input as HandleInput).handle;
  if (other === undefined) return false;
  if (other.kind === 'file') return other.isSameEntry(handle);
  return other.isSameEntry(handle).then(async same =>
    same || await (other as FileSystemDirectoryHandle).resolve(handle) !== null);
}

export interface FolderSinkOptions {
  /**
   * Files of the same names are replaced, shards of an earlier result go, nothing else is touched. Without it the folder
   * must be empty.
   */
  overwrite?: boolean;
}

/** A picked folder. Files get their final names only when all of them are whole. */
export function folderSink(folder: FileSystemDirectoryHandle, options: FolderSinkOptions = {}): OutputSink {
  const streams = new OpenStreams();
  const made: string[] = [];
  let order: string[] = [];
  let moves = false;

  const create = async (name: string): Promise<FileSystemFileHandle> => {
    try {
      return await folder.getFileHandle(name, { create: true });
    } catch (error) {
      throw sinkError(error, name);
    }
  };
  const remove = (name: string) => folder.removeEntry(name).catch(() => undefined);

  return {
    name: folder.name,
    block: BLOCK,
    async begin(files: OutputFile[], input: SourceTree): Promise<void> {
      await checkPermission(folder);
      if (await isInput(folder, input)) throw refused(folder.name, 'it is or lies in the input folder');
      if (input.main !== undefined && await holds(folder, input)) throw refused(folder.name, `it holds an input, ${quoteName(input.main)}`);
      order = files.map(file => file.name);
      const ours = new Set(order.flatMap(name => [name, name + PART]));
      try {
        for await (const [name, handle] of folder.entries()) {
          if (handle.kind === 'directory' && ours.has(name)) throw refused(name, 'a folder of that name is there');
          if (options.overwrite || (name.endsWith(PART) && ours.has(name)) || name.endsWith('.crswap')) continue;
          throw refused(folder.name, `the folder is not empty, it holds ${quoteName(name)}`);
        }
      } catch (error) {
        throw sinkError(error, folder.name);
      }
      moves = await canMove(folder);
    },
    async create(file: OutputFile): Promise<OutputWriter> {
      const name = moves ? file.name + PART : file.name;
      const there = moves ? false : await exists(folder, name);
      const handle = await create(name);
      if (!there) made.push(name);
      return streams.open(handle, file.name, file.size);
    },
    async publish(): Promise<void> {
      for (const name of moves ? order : []) {
        try {
          await ((await folder.getFileHandle(name + PART)) as Movable).move!(name);
        } catch (error) {
          throw sinkError(error, name);
        }
        made.splice(made.indexOf(name + PART), 1);
      }
      if (!options.overwrite) return;
      const listed: string[] = [];
      for await (const name of folder.keys()) listed.push(name);
      for (const name of staleShards(order, listed)) await remove(name);
    },
    async abort(): Promise<void> {
      await streams.abort();
      for (const name of made) await remove(name);
    },
  };
}

async function exists(folder: FileSystemDirectoryHandle, name: string): Promise<boolean> {
  return folder.getFileHandle(name).then(() => true, () => false);
}

/** A lone file has no handle to compare: a file of its name and size there is taken for it. */
async function holds(folder: FileSystemDirectoryHandle, input: SourceTree): Promise<boolean> {
  const name = input.main!;
  const wanted = await input.find(name);
  const there = await folder.getFileHandle(name).then(handle => handle.getFile(), () => undefined);
  return wanted !== undefined && there !== undefined && there.size === wanted.size;
}

/** Whether files can be renamed there: not every browser does it outside its private file system. */
async function canMove(folder: FileSystemDirectoryHandle): Promise<boolean> {
  const from = `tftf-${Date.now().toString(36)}${PART}`;
  const to = `to-${from}`;
  let handle: FileSystemFileHandle;
  try {
    handle = await folder.getFileHandle(from, { create: true });
  } catch (error) {
    throw sinkError(error, folder.name);
  }
  try {
    const { move } = handle as Movable;
    if (move === undefined) return false;
    await move.call(handle, to);
    return true;
  } catch {
    return false;
  } finally {
    await folder.removeEntry(from).catch(() => undefined);
    await folder.removeEntry(to).catch(() => undefined);
  }
}
