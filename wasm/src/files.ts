import { TftfError } from './error.js';
import { quoteName } from './names.js';
import type { RangeSource, SourceTree } from './source.js';

const MOST_OPEN = 64;
const MOST_ATTEMPTS = 8;

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

/** Refuses what is no tree, for those who write no TypeScript. */
export function checkTree(tree: SourceTree): void {
  const { list, walk, find, open } = (tree ?? {}) as Partial<SourceTree>;
  if ([list, walk, find, open].every(member => typeof member === 'function')) return;
  throw new TftfError('usage', 'This is no tree of files, as fileTree(), handleTree(), urlTree() or pathTree() make one.');
}

/**
 * What several tasks wait for, begun with the signal of one of them: when that one is cancelled, the others begin it anew.
 */
export async function shared<T>(get: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (let attempt = 1; ; ++attempt) {
    try {
      return await get();
    } catch (error) {
      const another = error instanceof TftfError && error.code === 'interrupted' && !(signal?.aborted ?? false);
      if (!another || attempt === MOST_ATTEMPTS) throw error;
    }
  }
}

/** Files of a tree, opened when first needed, the least used closed when there are many. */
export class OpenFiles {
  private readonly open = new Map<string, Promise<RangeSource>>();
  private closed = false;
  private readonly others = new Map<string, SourceTree>();
  /** Rejects, as 'usage', what is no tree. */
  constructor(readonly tree: SourceTree) { checkTree(tree); }

  /** Makes the files of another tree known, as the place that this gives, "//", and their names. */
  add(tree: SourceTree): string {
    checkTree(tree);
    const whole = tree.main === undefined || !tree.given.endsWith(tree.main) ? tree.given : tree.given.slice(0, -tree.main.length);
    const folder = whole === '' ? '.' : whole === '/' ? '/' : whole.replace(/\/$/, '');
    let place = folder;
    for (let n = 2; this.others.has(place); ++n) place = `${folder} ${n}`;
    this.others.set(place, tree);
    return place;
  }
  private opening(path: string, signal?: AbortSignal): Promise<RangeSource> {
    const at = path.lastIndexOf('//');
    const other = at < 0 ? undefined : this.others.get(path.slice(0, at));
    return other === undefined ? this.tree.open(path, signal) : other.open(path.slice(at + 2), signal);
  }

  get(path: string, signal?: AbortSignal): Promise<RangeSource> {
    return shared(() => this.source(path, signal), signal);
  }
  private async source(path: string, signal?: AbortSignal): Promise<RangeSource> {
    if (this.closed) throw new TftfError('usage', 'It is closed; nothing can be read from it any more.');
    let source = this.open.get(path);
    if (source === undefined) {
      const opening = this.opening(path, signal);
      opening.catch(() => { if (this.open.get(path) === opening) this.open.delete(path); });
      source = opening;
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
    this.closed = true;
    const all = [...this.open.values()];
    this.open.clear();
    await Promise.allSettled(all.map(async source => (await source).close()));
  }
}
