/** Codes of the core's table (docs/errors.md). */
export type ErrorCode =
  | 'usage' | 'usage-path'
  | 'refused-input' | 'refused-config' | 'refused-ambiguous' | 'refused-unsupported' | 'refused-shape'
  | 'refused-missing' | 'refused-unmatched' | 'refused-collision' | 'refused-values' | 'refused-output'
  | 'refused-memory' | 'refused-journal' | 'refused-different'
  | 'io-read' | 'io-write' | 'io-space' | 'io-changed'
  | 'interrupted' | 'internal';

/** What an error says besides its sentence; null where it does not apply. */
export interface ErrorParts {
  file?: string | null;
  tensor?: string | null;
  expected?: string | null;
  found?: string | null;
}

/**
 * Why something cannot go on: everything that this package rejects with. `message` is one full English sentence,
 * names in it escaped; `file` and `tensor` are exact.
 */
export class TftfError extends Error {
  override readonly name = 'TftfError';
  readonly code: ErrorCode;
  readonly file: string | null;
  readonly tensor: string | null;
  readonly expected: string | null;
  readonly found: string | null;

  constructor(code: ErrorCode, message: string, parts: ErrorParts = {}) {
    super(message);
    this.code = code;
    this.file = parts.file ?? null;
    this.tensor = parts.tensor ?? null;
    this.expected = parts.expected ?? null;
    this.found = parts.found ?? null;
  }
}
