import type { SourceTree } from './source.js';

/** A file that will be written. */
export interface OutputFile {
  /** Final name, relative to the output. */
  name: string;
  size: number;
  /** A file of the input's folder, or of another model's, as it is. */
  copied?: boolean;
  /** The file of this machine whose mode and time a copy keeps. */
  like?: string;
}

/** One file while it is written, under a temporary name. */
export interface OutputWriter {
  /**
   * `bytes` may be a view of memory that grows: it is good until the call returns, what is wanted later has to be copied. Any
   * offset inside the size.
   */
  write(offset: number, bytes: Uint8Array): Promise<void>;
  /** All bytes are there: makes them durable. May be slow; the file does not have its final name yet where that can be helped. */
  close(): Promise<void>;
}

/**
 * Where a result goes. Rejections are TftfErrors: 'refused-output' (exists, is the input), 'io-space', 'io-write'.
 * Whatever happens, no half file stands under a final name.
 */
export interface OutputSink {
  /** Where, in words, for the account. */
  readonly name: string;
  /** Set when it takes one file, of this name: plan with it. */
  readonly singleName?: string;
  /** Bytes that are best written at once. */
  readonly block: number;
  /** Before anything is created: all files, the index last. Refuses what must not be written. */
  begin(files: OutputFile[], input: SourceTree): Promise<void>;
  create(file: OutputFile): Promise<OutputWriter>;
  /** All writers are closed: final names, in the order of begin(). */
  publish(): Promise<void>;
  /** Something went wrong, in begin() too, or the user cancelled: nothing of this run is left. */
  abort(): Promise<void>;
}
