import type { AdapterSource } from './adapter.js';
import type { Account } from './documents.js';
import type { TaskOptions } from './progress.js';
import type { OutputFile, OutputSink } from './sink.js';
import type { SourceTree } from './source.js';

/** One operation with its options, as its row in the table says. Values are text. */
export interface Operation {
  id: string;
  /** In the order given; a flag has no values, a rule two, anything else one. */
  options?: { name: string; values: string[] }[];
  /** merge-lora: what is merged; its options adapter and adapter-config only name it. Read whole when planned. */
  adapter?: AdapterSource;
  /** graft: the model that tensors are taken from; its option `from` only names it. Only its headers are read when planned. */
  from?: SourceTree;
  /** What options of quantize name (scheme, qparams, static-qparams), by option: the files' bytes. */
  files?: Record<string, Uint8Array>;
}

export interface PlanRequest {
  /** The command's name in plan and account; the first operation's id when absent. */
  command?: string;
  operations: Operation[];
  /** Where it is to go, in words, for the account. */
  output: string;
  /** One file of this name instead of a folder of shards. */
  singleName?: string;
  /** Bytes of tensors in a shard (20 GiB). */
  maxShardSize?: number;
  align?: boolean;
  dryRun?: boolean;
}

/** What will be done, before anything is written. Holds memory until close(). */
export interface TransformPlan {
  /** The text form that a dry run prints; `steps`: with those of each tensor. */
  text(steps?: boolean): string;
  /** The account as it is known before the run. */
  account(): Account;
  accountJson(): string;
  accountText(allNames?: boolean): string;
  /** All files that run() would write, in the order of their final names; the index last. */
  readonly outputs: OutputFile[];
  readonly singleName: string | null;
  readonly readBytes: number;
  readonly writtenBytes: number;
  /** What run() needs besides the module itself. */
  readonly memoryBytes: number;
  close(): Promise<void>;
}

export interface RunResult {
  account(): Account;
  accountJson: string;
  accountText: string;
  bytesRead: number;
  bytesWritten: number;
  /** Milliseconds spent reading, computing, writing and finishing. */
  elapsed: { read: number; compute: number; write: number; finish: number };
}

/**
 * `run(plan, sink, options)`, once per plan. Rejections leave nothing behind: 'interrupted' after an abort, 'io-changed'
 * when an input changed, 'io-space', 'io-write', 'io-read', 'refused-output', 'refused-values'.
 */
export type Run = (plan: TransformPlan, sink: OutputSink, options?: TaskOptions) => Promise<RunResult>;
