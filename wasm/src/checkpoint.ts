import type { InfoDocument, OperationInfo } from './documents.js';
import type { TftfError } from './error.js';
import type { TaskOptions } from './progress.js';
import type { SourceTree } from './source.js';
import type { LogicalTensor, StoredTensor } from './tensor.js';
import type { PlanRequest, TransformPlan } from './transform.js';

export interface OpenOptions extends TaskOptions {
  /** Longest header that is read (100,000,000 bytes). */
  maxHeader?: number;
}

export interface InfoTextOptions {
  filter?: string;
  dtypeSummary?: boolean;
  offsets?: boolean;
  fold?: boolean;
  /** Columns of the terminal; 0: nothing is cut. */
  width?: number;
  /** Nothing but ASCII. */
  ascii?: boolean;
}

/** A small file beside the tensors: config.json, adapter_config.json, the index … */
export interface SideFile {
  name: string;
  text: string;
}

/**
 * The rows of info().tensors as columns, for models of a hundred thousand tensors. `dtype`, `shape`, `layout` and
 * `logical` are positions in the lists of words; the first layout and the first logical form are empty, for none.
 */
export interface TensorTable {
  names: string[];
  /** Position in info().files. */
  file: number[];
  dtype: number[];
  shape: number[];
  /** In the file's data section. */
  begin: number[];
  end: number[];
  layout: number[];
  logical: number[];
  /** Row that it is a companion of, counted from 1; 0: of none. */
  companion: number[];
  dtypes: string[];
  /** Dimensions with commas between; empty for a scalar. */
  shapes: string[];
  layouts: string[];
  /** A dtype, and dimensions behind a space where they are known. */
  logicals: string[];
}

/** Everything that the headers tell, broken shards included. Holds memory until close(). */
export interface Checkpoint {
  readonly tree: SourceTree;
  /** `info --json`, the core's text. `filter` thins out the lists of tensors, not the totals. */
  infoJson(filter?: string): string;
  /** infoJson(), parsed. */
  info(filter?: string): InfoDocument;
  /** info().tensors as columns; offsets beyond 2^53 are rounded. */
  table(): TensorTable;
  infoText(options?: InfoTextOptions): string;
  /** `adapter info` of it: the JSON document, or lines for people. */
  adapterInfo(text?: boolean): string;
  /** Why it is no adapter; null when it is one. */
  noAdapter(): TftfError | null;
  /** Some tensor's name holds this text. */
  matches(filter: string): boolean;
  /** Why no weight file is sound; null when one is. */
  broken(): TftfError | null;
  /** Configuration files that the reader took along, and the index. */
  sideFiles(): SideFile[];
  /** The table of operations with `applicable` and `reason` for this checkpoint. */
  operations(): OperationInfo[];
  /** By position in info().tensors (unfiltered). */
  tensor(index: number): StoredTensor;
  /**
   * The tensor as its quantised layout means it, in the layout's own result dtype. Rejects with 'refused-unsupported' where
   * it is plain or nothing here reads its layout. Close it after use, before the checkpoint.
   */
  logicalTensor(index: number, options?: TaskOptions): Promise<LogicalTensor>;
  /**
   * Plans operations over this input, reading it anew and strictly: what `info` still shows may be refused here.
   * Nothing is written.
   */
  plan(request: PlanRequest, options?: TaskOptions): Promise<TransformPlan>;
  close(): Promise<void>;
}
