import { TftfError } from '../error.js';
import { quoteName } from '../names.js';
import type { OutputFile, OutputSink, OutputWriter } from '../sink.js';
import { sinkError } from './handle-sink.js';

const BLOCK = 16 << 20;
const FOLDER = 'tftf-results';

/** A sink in the browser's private file system, for browsers without pickers: its files are then downloaded. */
export interface DownloadSink extends OutputSink {
  /** The finished files; for object URLs with a `download` attribute. */
  files(): Promise<File[]>;
  /** Removes them: after the downloads. */
  discard(): Promise<void>;
}

/** Sync access handles are three to ten times as fast as streams; they are in workers only. */
interface SyncHandle {
  write(bytes: Uint8Array, options: { at: number }): number;
  truncate(size: number): void;
  flush(): void;
  close(): void;
}

class SyncWriter implements OutputWriter {
  constructor(private readonly handle: SyncHandle, private readonly file: string, private readonly closed: () => void) {}
  async write(offset: number, bytes: Uint8Array): Promise<void> {
    try {
      for (let done = 0; done < bytes.length;) {
        const wrote = this.handle.write(bytes.subarray(done), { at: offset + done });
        if (wrote === 0) throw new DOMException('', 'QuotaExceededError');
        done += wrote;
      }
    } catch (error) {
      throw sinkError(error, this.file);
    }
  }
  async close(): Promise<void> {
    try {
      this.handle.flush();
    } catch (error) {
      throw sinkError(error, this.file);
    } finally {
      this.handle.close();
      this.closed();
    }
  }
}

class StreamWriter implements OutputWriter {
  constructor(private readonly stream: FileSystemWritableFileStream, private readonly file: string, private readonly closed: () => void) {}
  async write(position: number, bytes: Uint8Array): Promise<void> {
    try {
      await this.stream.write({ type: 'write', position, data: bytes.slice() });
    } catch (error) {
      throw sinkError(error, this.file);
    }
  }
  async close(): Promise<void> {
    try {
      await this.stream.close();
    } catch (error) {
      throw sinkError(error, this.file);
    }
    this.closed();
  }
}

/** `name`: in words, for the account. */
export async function downloadSink(name = 'download'): Promise<DownloadSink> {
  let root: FileSystemDirectoryHandle;
  try {
    root = await (await navigator.storage.getDirectory()).getDirectoryHandle(FOLDER, { create: true });
  } catch (error) {
    throw sinkError(error, name);
  }
  const own = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
  const folder = await root.getDirectoryHandle(own, { create: true });
  const open = new Set<() => Promise<void> | void>();
  let order: string[] = [];
  const discard = async () => {
    for (const close of open) await Promise.resolve(close()).catch(() => undefined);
    open.clear();
    await root.removeEntry(own, { recursive: true }).catch(() => undefined);
  };
  return {
    name,
    block: BLOCK,
    async begin(files: OutputFile[]): Promise<void> {
      order = files.map(file => file.name);
      const needed = files.reduce((sum, file) => sum + file.size, 0);
      const { quota, usage } = await navigator.storage.estimate();
      if (quota !== undefined && quota - (usage ?? 0) < needed) {
        throw new TftfError('io-space',
          `The browser gives this page ${quota - (usage ?? 0)} bytes, and ${quoteName(name)} needs ${needed}.`,
          { expected: String(needed), found: String(quota - (usage ?? 0)) });
      }
    },
    async create(file: OutputFile): Promise<OutputWriter> {
      try {
        const handle = await folder.getFileHandle(file.name, { create: true });
        const { createSyncAccessHandle } = handle as { createSyncAccessHandle?: () => Promise<SyncHandle> };
        if (createSyncAccessHandle !== undefined) {
          const sync = await createSyncAccessHandle.call(handle);
          const close = () => sync.close();
          open.add(close);
          sync.truncate(file.size);
          return new SyncWriter(sync, file.name, () => open.delete(close));
        }
        const stream = await handle.createWritable();
        const abort = () => stream.abort();
        open.add(abort);
        return new StreamWriter(stream, file.name, () => open.delete(abort));
      } catch (error) {
        throw sinkError(error, file.name);
      }
    },
    async publish(): Promise<void> {},
    abort: discard,
    discard,
    files: () => Promise.all(order.map(async file => (await folder.getFileHandle(file)).getFile())),
  };
}

/** Removes what earlier visits left in the browser's private file system; at the start of a page, when no run is on. */
export async function discardDownloads(): Promise<void> {
  const root = await navigator.storage.getDirectory();
  await root.removeEntry(FOLDER, { recursive: true }).catch(() => undefined);
}
