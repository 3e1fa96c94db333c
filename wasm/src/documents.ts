/**
 * The JSON documents of the core, as types. The text is always the core's own: it is passed on or parsed, never printed
 * anew. Integers beyond 2^53-1 are strings of digits, NaN and infinities the strings "NaN", "Infinity", "-Infinity".
 */

/** An integer; digits as text where a number would not be exact. */
export type Count = number | string;
/** A number; text where JSON has no number for it. */
export type Real = number | 'NaN' | 'Infinity' | '-Infinity';

export type ModelKind = 'checkpoint' | 'adapter' | 'embedding' | 'data' | 'index' | 'pointer' | 'config' | 'broken';
export type ShardStatus = 'ok' | 'missing' | 'broken' | 'pointer';

export interface ShardInfo {
  name: string;
  status: ShardStatus;
  size: Count | null;
  header_length: Count | null;
  tensors: Count | null;
}
export interface DTypeTotal {
  dtype: string;
  tensors: Count;
  elements: Count;
  bytes: Count;
}
export interface LayoutTotal {
  id: string;
  modules: Count;
  logical_parameters: Count | null;
  bytes: Count;
  /** One sentence: what was seen. */
  evidence: string;
}
export interface FoldedRow {
  /** Layer and expert numbers as '#'. */
  pattern: string;
  count: Count;
  dtype: string;
  shape: Count[];
  bytes: Count;
}
export interface TensorRow {
  name: string;
  /** Position in `files`. */
  file: number;
  dtype: string;
  shape: Count[];
  /** Begin and end in the file's data section. */
  offsets: [Count, Count];
  layout: string | null;
  logical: { dtype: string; shape: Count[] | null } | null;
  companion_of: string | null;
}
export interface IndexInfo {
  file: string;
  tensors: Count;
  shards: Count;
  total_size: Count | string | null;
  missing: string[];
}
/** The object of `adapter info --json`. */
export type AdapterInfo = Record<string, unknown> & {
  family?: string;
  form?: string;
  modules?: Count;
};

/** `info --json`. */
export interface InfoDocument {
  tool: { name: string; version: string };
  input: string;
  kind: ModelKind;
  family: string | null;
  files: ShardInfo[];
  tensor_count: Count;
  data_bytes: Count;
  stored_elements: Count;
  logical_parameters: Count | null;
  dtypes: DTypeTotal[];
  layouts: LayoutTotal[];
  metadata: Record<string, string>;
  config: { model_type: string | null; dtype: string | null; quant_method: string | null } | null;
  adapter: AdapterInfo | null;
  index: IndexInfo | null;
  /** Which layout the names have, and how many would move to the other. */
  names: { layout: string; to_transformers_4: Count; to_transformers_5: Count } | null;
  /** Containers of experts. */
  experts: { form: string; split: Count; fused: Count; mixed: Count } | null;
  folded: FoldedRow[];
  tensors: TensorRow[];
  notes: string[];
}

/** 0 error, 1 warning, 2 info, 3 hint. */
export type Severity = 0 | 1 | 2 | 3;

export interface LintMessage {
  rule: string;
  name: string;
  severity: Severity;
  message: string;
  /** Position in `input`; only when several were given. */
  input?: number;
  /** Relative to the input; "." or "SUB/" for rules about folders. */
  file: string;
  /** Tensor, key, shard, module or component. */
  subject: string | null;
  /** JSON Pointer into header, index or configuration. */
  pointer: string | null;
  /** Byte in the file. */
  offset: Count | null;
  /** What the message was made of, by name. */
  values: Record<string, unknown>;
}
export interface LintedFile {
  file: string;
  size: Count;
  headerLength: Count;
  tensors: Count;
  dtypes: Record<string, { tensors: Count; elements: Count; bytes: Count }>;
  format: string | null;
  metadataKeys: string[];
}
export interface LintedFolder {
  folder: string;
  shards: string[];
  index: string | null;
  modelType: string | null;
  adapter: Record<string, unknown> | null;
}
/** `lint --json`. */
export interface LintDocument {
  validator: { name: string; version: string };
  input: string | string[];
  timestamp?: string;
  issues: {
    numErrors: Count;
    numWarnings: Count;
    numInfos: Count;
    numHints: Count;
    messages: LintMessage[];
    truncated: boolean;
  };
  info: {
    files: LintedFile[];
    folders: LintedFolder[];
    /** Links that were not followed. */
    skippedLinks: { file: string; input?: number }[];
  };
}
/** `lint rules --json`: one rule of the catalogue. */
export type RuleInfo = Record<string, unknown> & { id: string; name: string };

export type OptionKind = 'flag' | 'choice' | 'integer' | 'size' | 'glob' | 'rule' | 'text' | 'number' | 'path';
export interface OptionInfo {
  /** Without dashes. */
  name: string;
  kind: OptionKind;
  /** What is taken when it is not given; null: nothing, or the input decides. */
  default: string | null;
  choices: string[] | null;
  unit: string | null;
  help: string;
  required: boolean;
  repeatable: boolean;
}
/** One row of the table of operations: forms are made from it. */
export interface OperationInfo {
  id: string;
  title: string;
  summary: string;
  options: OptionInfo[];
  layouts: string | null;
  writes: string;
  /** Null when asked for without a checkpoint. */
  applicable: boolean | null;
  /** Why it would do nothing or be refused. */
  reason: string | null;
}

/** What a writing command did, or would do. */
export interface Account {
  command: string;
  input: string;
  output: string;
  dry_run: boolean;
  /** Of `adapter convert` alone: families, modules of the result, and what became of the input's tensors. */
  from?: string;
  to?: string;
  base_family?: string | null;
  modules?: Count;
  coverage?: { mapped: Count; unmapped: Count; dropped: Count };
  notes?: string[];
  tensors: {
    in: Count;
    out: Count;
    changed: Count;
    copied: Count;
    dropped: { reason: string; count: Count; names: string[] }[];
    left_quantised: Count;
  };
  bytes: { read: Count; written: Count };
  layouts: { id: string; modules: Count; evidence: string }[];
  /** Modules of each adapter: what it holds, how many were merged, how many its configuration leaves out; tensors of the model that change or are added. */
  merges?: { adapter: string; modules: Count; merged: Count; left_out: Count; tensors: Count; added: Count }[];
  /** Of each other model: what was taken from it, as the result names it, and what was not, by reason. */
  grafts?: { source: string; taken: Count; bytes: Count; converted: Count; replaced: Count; moved: Count; into_wrapper: boolean; names: string[];
    skipped: { reason: string; count: Count; names: string[] }[] }[];
  /** Of `convert`, as the four that follow: names, containers of experts, joined matrices. */
  model_type?: string;
  names?: { moved: Count; kept: Count; unmapped: Count };
  experts?: { fused: Count; split: Count; transposed: Count };
  joined?: Count;
  files: { name: string; tensors: Count; bytes: Count }[];
  config: { file: string; pointer: string; before: unknown; after: unknown }[];
  non_finite: { name: string; became_infinite: Count }[];
  warnings: string[];
  resumed: boolean;
}

/** One tensor of `stats --json`. */
export interface StatisticsRow {
  name: string;
  /** Position of its file. */
  file: number;
  dtype: string;
  shape: Count[];
  layout: string | null;
  /** What was looked at, with `logical`. */
  logical: { dtype: string; shape: Count[] } | null;
  count: Count;
  nan: Count;
  infinite: Count;
  zero: Count;
  subnormal: Count;
  negative: Count;
  first_nan: Count | null;
  first_infinite: Count | null;
  constant: boolean;
  /** Of the finite values; null when there are none. */
  min: Real | Count | null;
  max: Real | Count | null;
  mean: Real | null;
  std: Real | null;
  histogram: { low: Real; high: Real; counts: Count[] } | null;
}
/** `stats --json`. */
export interface StatisticsDocument {
  tool: { name: string; version: string };
  input: string;
  logical: boolean;
  tensors: StatisticsRow[];
  notes: string[];
}

export type PairStatus =
  | 'same' | 'equal_values' | 'close' | 'different' | 'dtype' | 'shape' | 'only_left' | 'only_right' | 'not_comparable';
/** How far the values of two tensors lie apart. */
export interface PairDistance {
  count: Count;
  differing: Count;
  /** Left and right. */
  nan: [Count, Count];
  infinite: [Count, Count];
  unmatched: Count;
  max_abs: Real;
  max_abs_at: Count | null;
  max_relative: Real;
  mean_abs: Real;
  relative_l2: Real;
  cosine: Real | null;
  sqnr_db: Real | null;
}
export interface PairSide {
  dtype: string;
  shape: Count[];
  layout: string | null;
}
/** A tensor that is not the same on both sides. */
export interface TensorPair {
  name: string;
  status: PairStatus;
  reason: string | null;
  left: PairSide | null;
  right: PairSide | null;
  distance: PairDistance | null;
}
/** `diff --json`. */
export interface ComparisonDocument {
  tool: { name: string; version: string };
  left: string;
  right: string;
  values: boolean;
  tolerance: Real;
  strict: boolean;
  different: boolean;
  tensor_count: Count;
  summary: Record<PairStatus, Count>;
  tensors: TensorPair[];
  metadata: { key: string; left: string | null; right: string | null }[];
  config: { file: string; pointer: string; left: string | null; right: string | null }[];
  notes: string[];
}
