import type { InfoDocument, OperationInfo } from './documents.js';
import type { TaskOptions } from './progress.js';
import type { SourceTree } from './source.js';
import type { StoredTensor, TensorReader } from './tensor.js';
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
}

/** A small file beside the tensors: config.json, adapter_config.json, the index … */
export interface SideFile {
  name: string;
  text: string;
}

/** Everything that the headers tell, broken shards included. Holds memory until close(). */
export interface Checkpoint {
  readonly tree: SourceTree;
  /** `info --json`, the core's text. `filter` thins out the lists of tensors, not the totals. */
  infoJson(filter?: string): string;
  /** infoJson(), parsed. */
  info(filter?: string): InfoDocument;
  infoText(options?: InfoTextOptions): string;
  /** Configuration files that the reader took along, and the index. */
  sideFiles(): SideFile[];
  /** The table of operations with `applicable` and `reason` for this checkpoint. */
  operations(): OperationInfo[];
  /** By position in info().tensors (unfiltered). */
  tensor(index: number): StoredTensor;
  /** The tensor as its layout means it; rejects with 'refused-unsupported' where nothing can tell. */
  logicalTensor(index: number, options?: TaskOptions): Promise<TensorReader>;
  /**
   * Plans operations over this input, reading it anew and strictly: what `info` still shows may be refused here.
   * Nothing is written.
   */
  plan(request: PlanRequest, options?: TaskOptions): Promise<TransformPlan>;
  close(): Promise<void>;
}

/** `openCheckpoint(tree)`: rejects when there is nothing to look at; broken files open and say so in info(). */
export type OpenCheckpoint = (tree: SourceTree, options?: OpenOptions) => Promise<Checkpoint>;
/** The table of operations without a checkpoint. */
export type Operations = () => Promise<OperationInfo[]>;
