import type { LintDocument } from './documents.js';
import type { TaskOptions } from './progress.js';
import type { SourceTree } from './source.js';

export interface LintOptions extends TaskOptions {
  /** Read the tensors' values too. */
  data?: boolean;
  /** The model that adapters belong to. */
  base?: SourceTree;
  /** Rule ids, or lists of them separated by commas; these alone. */
  only?: string[];
  ignore?: string[];
  /** "ID=LEVEL", the level "error", "warning", "info" or "hint"; the last of a rule counts. */
  severity?: string[];
  /** Most messages of one rule in one file; 100 when absent, 0: all. */
  maxIssues?: number;
  /** 'error' (when absent), 'warning' or 'info': the level from which on the report has failed. */
  failOn?: string;
  /** The same as failOn 'warning'. */
  strict?: boolean;
  /** A configuration file's name and text (--config). */
  config?: { file: string; text: string };
  /** Put into the report as it is (ISO 8601, UTC). */
  timestamp?: string;
  maxHeader?: number;
}

export type ReportFormat = 'text' | 'json' | 'sarif' | 'github' | 'junit';
export interface TextStyle {
  colour?: boolean;
  quiet?: boolean;
  verbose?: boolean;
}

/** A finished lint run. */
export interface LintReport {
  /** Something is at or above the fail level. */
  readonly failed: boolean;
  /** The core's text, byte for byte what the native linter prints. */
  render(format: ReportFormat, style?: TextStyle): string;
  /** render('json'), parsed. */
  document(): LintDocument;
  /** Frees its memory; nothing else may be called afterwards. */
  close(): void;
}
