import * as fs from 'node:fs';
import * as path from 'node:path';
import { getSystemErrorMap } from 'node:util';
import { TftfError } from '../error.js';
import { changedError, readError } from '../files.js';
import { quoteName } from '../names.js';
import type { RangeSource, SourceEntry, SourceTree } from '../source.js';
import { byBytes, isLeftBehind } from './tree-entries.js';

const NOT_REGULAR = 'not a regular file';
const MOST_FILES = Number.MAX_SAFE_INTEGER;

type Failure = NodeJS.ErrnoException;

/** The system's words, as a phrase: "permission denied". */
export function reasonOf(error: unknown): string {
  const { errno, message } = error as Failure;
  const known = errno === undefined ? undefined : getSystemErrorMap().get(errno)?.[1];
  return known ?? message;
}

interface Seen {
  size: bigint;
  mtime: bigint;
  device: bigint;
  inode: bigint;
}
const seenOf = (stats: fs.BigIntStats): Seen =>
  ({ size: stats.size, mtime: stats.mtimeNs, device: stats.dev, inode: stats.ino });
const same = (a: Seen, b: Seen): boolean =>
  a.size === b.size && a.mtime === b.mtime && a.device === b.device && a.inode === b.inode;

/** Memory that is wholly overwritten next. */
const unfilled = (length: number): Uint8Array => new Uint8Array(Buffer.allocUnsafeSlow(length).buffer, 0, length);

class NodeFile implements RangeSource {
  readonly size: number;
  private closed = false;
  constructor(private readonly descriptor: number, readonly file: string, private readonly name: string,
    private readonly seen: Seen) {
    this.size = Number(seen.size);
  }

  readSync(offset: number, into: Uint8Array): void {
    // The number of a closed file may be another file's by now.
    if (this.closed) throw new TftfError('usage', `${quoteName(this.name)} is closed; nothing can be read from it any more.`);
    for (let done = 0; done < into.length;) {
      let got: number;
      try {
        got = fs.readSync(this.descriptor, into, done, into.length - done, offset + done);
      } catch (error) {
        throw readError(this.name, reasonOf(error));
      }
      if (got === 0) throw changedError(this.name);
      done += got;
    }
  }
  async read(offset: number, length: number): Promise<Uint8Array> {
    const bytes = unfilled(length);
    this.readSync(offset, bytes);
    return bytes;
  }
  async check(): Promise<void> {
    const now = fs.statSync(this.file, { bigint: true, throwIfNoEntry: false });
    if (now === undefined || !same(seenOf(now), this.seen)) throw changedError(this.name);
  }
  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    fs.closeSync(this.descriptor);
  }
}

function look(file: string, name: string): SourceEntry | undefined {
  let stats: fs.Stats | undefined;
  try {
    stats = fs.statSync(file);
  } catch (error) {
    const { code } = error as Failure;
    // A dangling link is a file that cannot be read, not one that is not there.
    if (code === 'ENOTDIR') return undefined;
    if (code === 'ENOENT' && fs.lstatSync(file, { throwIfNoEntry: false }) === undefined) return undefined;
    return { path: name, folder: false, size: 0, unreadable: reasonOf(error) };
  }
  const regular = stats.isFile();
  if (regular && stats.size > MOST_FILES) return { path: name, folder: false, size: 0, unreadable: 'too large' };
  const entry: SourceEntry = { path: name, folder: stats.isDirectory(), size: regular || stats.isDirectory() ? stats.size : 0 };
  if (!regular && !entry.folder) entry.irregular = true;
  return entry;
}

const isInside = (file: string, folder: string): boolean => folder === '/' || file.startsWith(`${folder}/`);

/** The hub cache entry that a resolved path lies in: up to the innermost component models--… */
function hubEntry(file: string): string | undefined {
  const at = file.lastIndexOf('/models--');
  if (at < 0) return undefined;
  const end = file.indexOf('/', at + 1);
  return end < 0 ? file : file.slice(0, end);
}

/** Everything below a folder; links are followed to files that lie inside it or in the same hub cache entry. */
function walkFolder(root: string, found: (entry: SourceEntry, file: string) => void): void {
  const folders = [''];
  const hub = hubEntry(root);
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    let names: string[];
    try {
      names = fs.readdirSync(path.join(root, folder));
    } catch (error) {
      if (folder === '') throw error;
      found({ path: folder, folder: true, size: 0, unreadable: reasonOf(error) }, path.join(root, folder));
      continue;
    }
    if (folder !== '') found({ path: folder, folder: true, size: 0 }, path.join(root, folder));
    for (const name of names) {
      if (isLeftBehind(name)) continue;
      const relative = folder === '' ? name : `${folder}/${name}`;
      let file = path.join(root, relative);
      try {
        let stats = fs.lstatSync(file);
        if (stats.isSymbolicLink()) {
          let target: string;
          try {
            target = fs.realpathSync(file);
          } catch {
            continue;
          }
          if (!isInside(target, root) && !(hub !== undefined && isInside(target, hub))) continue;
          stats = fs.lstatSync(target);
          if (stats.isDirectory()) continue;
          file = target;
        }
        if (stats.isDirectory()) {
          folders.push(relative);
        } else if (stats.isFile()) {
          found({ path: relative, folder: false, size: stats.size }, file);
        } else {
          found({ path: relative, folder: false, size: 0, unreadable: NOT_REGULAR, irregular: true }, file);
        }
      } catch (error) {
        if ((error as Failure).code !== 'ENOENT') {
          found({ path: relative, folder: false, size: 0, unreadable: reasonOf(error) }, file);
        }
      }
    }
  }
}

/** A path of this machine. */
class NodeTree implements SourceTree {
  // Synchronous reads of one tile at a time are the fastest here.
  readonly block = 1 << 20;
  readonly parallel = 1;
  private readonly seen = new Map<string, Seen>();
  /** Where walked entries lie when not under their own name (links). */
  private readonly places = new Map<string, string>();

  constructor(readonly given: string, readonly folder: string, readonly main: string | undefined, readonly place: string) {}

  private fileOf(name: string): string { return this.places.get(name) ?? path.join(this.folder, name); }

  async list(): Promise<SourceEntry[]> {
    let names: string[];
    try {
      names = fs.readdirSync(this.folder);
    } catch (error) {
      throw readError(this.folder, reasonOf(error));
    }
    return names.flatMap(name => look(path.join(this.folder, name), name) ?? []).sort(byBytes);
  }

  async walk(): Promise<SourceEntry[]> {
    const entries: SourceEntry[] = [];
    try {
      const root = fs.realpathSync(this.folder);
      walkFolder(root, (entry, file) => {
        entries.push(entry);
        this.places.set(entry.path, file);
      });
    } catch (error) {
      throw readError(this.given, reasonOf(error));
    }
    return entries.sort(byBytes);
  }

  async find(name: string): Promise<SourceEntry | undefined> {
    return look(path.join(this.folder, name), name);
  }

  async open(name: string): Promise<RangeSource> {
    const file = this.fileOf(name);
    let descriptor: number | undefined;
    try {
      descriptor = fs.openSync(file, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
      const stats = fs.fstatSync(descriptor, { bigint: true });
      if (!stats.isFile()) throw readError(name, NOT_REGULAR);
      const now = seenOf(stats);
      const before = this.seen.get(name);
      if (before !== undefined && !same(before, now)) throw changedError(name);
      this.seen.set(name, now);
      return new NodeFile(descriptor, file, name, now);
    } catch (error) {
      if (descriptor !== undefined) fs.closeSync(descriptor);
      throw error instanceof TftfError ? error : readError(name, reasonOf(error));
    }
  }
}

/** What goes before file names in reports: relative to the folder we were started in when it lies inside. */
function placeOf(given: string, isFolder: boolean): string {
  let text = path.normalize(given);
  if (path.isAbsolute(text)) {
    const relative = path.relative(process.cwd(), text);
    if (relative !== '' && relative.split('/')[0] !== '..') text = relative;
  }
  while (text.length > 1 && text.endsWith('/')) text = text.slice(0, -1);
  if (!isFolder) text = text.includes('/') ? text.slice(0, text.lastIndexOf('/') + 1) : '';
  if (text === '.') text = '';
  return text !== '' && !text.endsWith('/') ? `${text}/` : text;
}

/** A file, index file or folder. Rejects with 'usage-path' when nothing is there, 'io-read' when it cannot be looked at. */
export async function pathTree(given: string): Promise<SourceTree> {
  if (typeof given !== 'string') throw new TftfError('usage', 'A path is a text.');
  let stats: fs.Stats;
  try {
    stats = fs.statSync(given);
  } catch (error) {
    const { code } = error as Failure;
    if (code === 'ENOENT' || code === 'ENOTDIR') {
      throw new TftfError('usage-path', `${quoteName(given)} does not exist.`, { file: given });
    }
    throw readError(given, reasonOf(error));
  }
  if (stats.isDirectory()) {
    return new NodeTree(given, given.length > 1 ? given.replace(/\/+$/, '') || '/' : given, undefined, placeOf(given, true));
  }
  return new NodeTree(given, path.dirname(given), path.basename(given), placeOf(given, false));
}
