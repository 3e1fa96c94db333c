/** What lies in a tree of inputs. */
export interface SourceEntry {
  /** Relative to the tree, '/' between folders. */
  path: string;
  folder: boolean;
  /** Bytes of a file; 0 for folders. */
  size: number;
  /** Why it cannot be read, an English phrase ("permission denied", "not a regular file"). */
  unreadable?: string;
  /** Neither file nor folder (a FIFO, a device): never opened. */
  irregular?: boolean;
}

/** One file's bytes, positional. */
export interface RangeSource {
  readonly size: number;
  /** Where it lies, when it is a file of this machine. */
  readonly file?: string;
  /**
   * Exactly `length` bytes, which no later call changes: several may be going on at once. Rejects with a TftfError: 'io-changed' when the file is not the
   * one any more that was opened, 'io-read' otherwise.
   */
  read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array>;
  /** read() without a promise, straight to where the bytes are wanted; where the platform has it. */
  readSync?(offset: number, into: Uint8Array): void;
  /** Rejects with 'io-changed' when the file is not the one that was opened. */
  check(): Promise<void>;
  close(): Promise<void>;
}

/** A file or a folder that someone gave us: a picked file, a folder's handle, a path in Node, a URL. */
export interface SourceTree {
  /** As the user named it; stands in reports. */
  readonly given: string;
  /** Stands before file names in reports for others ("models/"); when absent it is made from `given`. */
  readonly place?: string;
  /** The one file (or index file) that was given; absent: the folder. Also its path in the tree. */
  readonly main?: string;
  /** Bytes that are best read at once. */
  readonly block: number;
  /** Reads that are best kept going at once while headers are read. */
  readonly parallel: number;
  /** The folder's own entries, without what lies in its subfolders; for a lone file what is known beside it. */
  list(signal?: AbortSignal): Promise<SourceEntry[]>;
  /** Everything below the folder, but for what is left behind by runs that were cut off. */
  walk(signal?: AbortSignal): Promise<SourceEntry[]>;
  /** What the path is; nothing when there is no such file. */
  find(path: string, signal?: AbortSignal): Promise<SourceEntry | undefined>;
  /** Rejects with 'io-read'. */
  open(path: string, signal?: AbortSignal): Promise<RangeSource>;
  close?(): Promise<void>;
}
