// What page and worker say to each other. Documents are the core's own; tensors travel as columns, since a model may
// have a hundred thousand of them.
import type { Account, AdapterInfo, DTypeTotal, IndexInfo, InfoDocument, LayoutTotal, Operation, OutputFile, PlanRequest, Progress, ShardInfo } from 'tftf';

// `info` without its lists of tensors.
export interface Summary {
  input: string;
  kind: InfoDocument['kind'];
  family: string | null;
  files: ShardInfo[];
  tensorCount: number;
  dataBytes: number;
  storedElements: number;
  logicalParameters: number | null;
  dtypes: DTypeTotal[];
  layouts: LayoutTotal[];
  metadata: Record<string, string>;
  config: InfoDocument['config'];
  adapter: AdapterInfo | null;
  index: IndexInfo | null;
  names: InfoDocument['names'];
  experts: InfoDocument['experts'];
  notes: string[];
}

// One entry per tensor in every column; small numbers are positions in the lists of words.
export interface TensorColumns {
  count: number;
  names: string[];
  file: Uint32Array;
  dtype: Uint8Array;
  dtypes: string[];
  shape: Uint32Array;
  shapes: string[];
  elements: Float64Array;
  bytes: Float64Array;
  begin: Float64Array;
  layout: Uint8Array; // 0: plain
  layouts: string[];
  logical: Uint32Array; // 0: as stored
  logicals: string[]; // "BF16 7168 × 2048"
  companionOf: Int32Array; // -1: none
  group: Uint32Array;
  groups: TensorGroup[];
}

// Tensors that differ in layer or expert numbers only.
export interface TensorGroup {
  pattern: string;
  count: number;
  dtype: number;
  shape: number;
  bytes: number;
  elements: number;
  first: number; // a tensor of it
}

// Module paths as a tree, node 0 the whole; children lie after their parent.
export interface ModuleTree {
  parent: Int32Array;
  label: string[];
  bytes: Float64Array;
  dtype: Uint8Array; // the one with most bytes
  tensor: Int32Array; // -1: a module
}

export interface SideText {
  name: string;
  text: string;
}

export type Origin =
  | { kind: 'handle'; label: string; handle: FileSystemHandle }
  | { kind: 'files'; label: string; files: { path: string; file: File }[] }
  | { kind: 'url'; label: string; url: string; hub?: string }; // hub: what hf:// stands for

export interface Opened {
  summary: Summary;
  tensors: TensorColumns;
  tree: ModuleTree;
  sideFiles: SideText[];
}

// Adapters are named by the input that holds them.
export type PageOperation = Omit<Operation, 'adapter' | 'from'> & { adapter?: number; from?: number; base?: number };
export type PagePlanRequest = Omit<PlanRequest, 'operations'> & { operations: PageOperation[] };

export interface PlanView {
  plan: number;
  account: Account;
  outputs: OutputFile[];
  singleName: string | null;
  readBytes: number;
  writtenBytes: number;
  memoryBytes: number;
}

// Where a result is written; a download lies in the browser's own storage first.
export type Target =
  | { kind: 'file'; handle: FileSystemFileHandle }
  | { kind: 'folder'; handle: FileSystemDirectoryHandle }
  | { kind: 'download' };

export interface RunView {
  account: Account;
  accountText: string;
  bytesRead: number;
  bytesWritten: number;
  elapsed: { read: number; compute: number; write: number; finish: number };
}

export interface Failure {
  code: string;
  message: string;
  file: string | null;
  tensor: string | null;
  expected: string | null;
  found: string | null;
}

export interface Request {
  call: number;
  method: string;
  args: unknown[];
}
export type ToWorker = Request | { cancel: number } | { pause: number; on: boolean };
export type FromWorker = { call: number; result: unknown } | { call: number; failure: Failure } | { call: number; progress: Progress };
