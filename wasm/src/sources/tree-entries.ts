import type { SourceEntry } from '../source.js';

const LEFT_BEHIND = /\.(tftf-part|tftf-journal|crswap)$/;

/** What this program, or a browser that is writing, leaves behind: not part of a tree that is walked. */
export function isLeftBehind(path: string): boolean {
  return LEFT_BEHIND.test(path);
}

const encoder = new TextEncoder();
// Outside of these the order of UTF-16 is that of UTF-8.
const SURROGATE = /[\ud800-\udfff]/;

/** Paths in the order of their UTF-8 bytes. */
export function byBytes(a: SourceEntry, b: SourceEntry): number {
  if (a.path === b.path) return 0;
  if (!SURROGATE.test(a.path) && !SURROGATE.test(b.path)) return a.path < b.path ? -1 : 1;
  const [x, y] = [encoder.encode(a.path), encoder.encode(b.path)];
  const length = Math.min(x.length, y.length);
  for (let i = 0; i < length; ++i) if (x[i] !== y[i]) return x[i]! - y[i]!;
  return x.length - y.length;
}

/** Folders that files imply, for trees that are given as files only. */
export function withFolders(files: SourceEntry[]): SourceEntry[] {
  const folders = new Set<string>();
  for (const { path } of files) {
    for (let at = path.indexOf('/'); at > 0; at = path.indexOf('/', at + 1)) folders.add(path.slice(0, at));
  }
  return [...files, ...[...folders].map(path => ({ path, folder: true, size: 0 }))].sort(byBytes);
}

/** The entries that lie in the folder itself. */
export function ownEntries(all: SourceEntry[]): SourceEntry[] {
  return all.filter(entry => !entry.path.includes('/'));
}
