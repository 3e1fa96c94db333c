import { TftfError } from './error.js';
import { quoteName } from './names.js';
import type { RangeSource, SourceTree } from './source.js';

const MOST_OPEN = 64;

/** Why something could not be read, as the phrase that findings take. */
export function readReason(error: unknown): string {
  if (error instanceof TftfError) return error.found ?? error.message;
  return error instanceof Error ? error.message : String(error);
}

/** A failed read: `reason` is the phrase ("permission denied"). */
export function readError(file: string, reason: string): TftfError {
  return new TftfError('io-read', `Cannot read ${quoteName(file)}: ${reason}.`, { file, found: reason });
}

export function changedError(file: string): TftfError {
  return new TftfError('io-changed', `${quoteName(file)} changed while it was in use; open it again.`,
    { file, found: 'it changed while it was read' });
}

/** Files of a tree, opened when first needed, the least used closed when there are many. */
export class OpenFiles {
  private readonly open = new Map<string, Promise<RangeSource>>();
  constructor(readonly tree: SourceTree) {}

  get(path: string, signal?: AbortSignal): Promise<RangeSource> {
    let source = this.open.get(path);
    if (source === undefined) {
      source = this.tree.open(path, signal);
      source.catch(() => this.open.delete(path));
    }
    this.open.delete(path);
    this.open.set(path, source);
    if (this.open.size > MOST_OPEN) {
      const oldest = this.open.entries().next().value!;
      this.open.delete(oldest[0]);
      oldest[1].then(one => one.close(), () => undefined);
    }
    return source;
  }

  async close(): Promise<void> {
    const all = [...this.open.values()];
    this.open.clear();
    await Promise.allSettled(all.map(async source => (await source).close()));
  }
}
