import * as fs from 'node:fs';
import * as path from 'node:path';
import { TftfError } from '../error.js';
import { quoteName } from '../names.js';
import type { OutputFile, OutputSink, OutputWriter } from '../sink.js';
import type { SourceTree } from '../source.js';
import { reasonOf } from '../sources/node-tree.js';
import { staleShards } from './stale-shards.js';

// No single write is longer: large ones cost twice the time.
const MOST_WRITE = 256 << 10;
const PART = '.tftf-part';

export interface PathSinkOptions {
  /** One file of that name instead of a folder. */
  single?: boolean;
  /** Files of the same names are replaced, shards of an earlier result go; nothing else is touched. */
  overwrite?: boolean;
  /** A folder that may hold other files, which are left alone; only those of the same names are in the way. */
  beside?: boolean;
}

function writeError(error: unknown, file: string): TftfError {
  if (error instanceof TftfError) return error;
  const { code } = error as NodeJS.ErrnoException;
  const full = code === 'ENOSPC' || code === 'EDQUOT';
  return new TftfError(full ? 'io-space' : 'io-write', `Cannot write ${quoteName(file)}: ${reasonOf(error)}.`, { file });
}

function refused(file: string, reason: string): TftfError {
  return new TftfError('refused-output', `Cannot write to ${quoteName(file)}: ${reason}.`, { file });
}

class PathWriter implements OutputWriter {
  /** `like`: the file whose mode and time a copy keeps. */
  constructor(private readonly descriptor: number, private readonly file: string, private readonly like: string | undefined,
    private readonly closed: () => void) {}
  async write(offset: number, bytes: Uint8Array): Promise<void> {
    try {
      for (let done = 0; done < bytes.length;) {
        done += fs.writeSync(this.descriptor, bytes, done, Math.min(MOST_WRITE, bytes.length - done), offset + done);
      }
    } catch (error) {
      throw writeError(error, this.file);
    }
  }
  async close(): Promise<void> {
    try {
      if (this.like !== undefined) {
        const { mode, atime, mtime } = fs.statSync(this.like);
        fs.fchmodSync(this.descriptor, mode & 0o777);
        fs.futimesSync(this.descriptor, atime, mtime);
      }
      fs.fsyncSync(this.descriptor);
    } catch (error) {
      throw writeError(error, this.file);
    }
    this.closed();
    fs.closeSync(this.descriptor);
  }
}

/** What `file` leads to, and what of it is missing: nothing here is created before begin() has agreed. */
function realFolder(folder: string): string {
  let at = path.resolve(folder);
  const missing: string[] = [];
  for (;;) {
    try {
      return path.join(fs.realpathSync(at), ...missing);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw refused(folder, reasonOf(error));
      if (fs.lstatSync(at, { throwIfNoEntry: false }) !== undefined) throw refused(folder, `${quoteName(at)} is a link to nothing`);
      missing.unshift(path.basename(at));
      at = path.dirname(at);
    }
  }
}

class PathSink implements OutputSink {
  readonly block = 1 << 20;
  readonly singleName?: string;
  private readonly folder: string;
  private order: string[] = [];
  private readonly open = new Map<string, number>();
  private readonly parts = new Set<string>();
  private readonly folders: string[] = [];

  constructor(readonly name: string, private readonly options: PathSinkOptions) {
    if (options.single) {
      this.singleName = path.basename(name);
      this.folder = path.dirname(name);
    } else {
      this.folder = name;
    }
  }

  private fileOf(name: string): string { return path.join(this.folder, name); }

  async begin(files: OutputFile[], input: SourceTree): Promise<void> {
    this.order = files.map(file => file.name);
    checkTarget(this.name, this.options, this.folder, this.order, input);
    let at = path.resolve(this.folder);
    const missing: string[] = [];
    for (; !fs.existsSync(at); at = path.dirname(at)) missing.unshift(at);
    try {
      for (const folder of missing) {
        fs.mkdirSync(folder);
        this.folders.unshift(folder);
      }
    } catch (error) {
      throw writeError(error, this.folder);
    }
  }

  async create(file: OutputFile): Promise<OutputWriter> {
    const part = this.fileOf(file.name) + PART;
    try {
      const folder = path.dirname(part);
      if (!fs.existsSync(folder)) {
        fs.mkdirSync(folder);
        this.folders.unshift(folder);
      }
      // Links are never followed; what an earlier run left is replaced.
      if (fs.lstatSync(part, { throwIfNoEntry: false }) !== undefined) fs.unlinkSync(part);
      const descriptor = fs.openSync(part, 'wx+');
      this.open.set(part, descriptor);
      this.parts.add(part);
      fs.ftruncateSync(descriptor, file.size);
      return new PathWriter(descriptor, part, file.like, () => this.open.delete(part));
    } catch (error) {
      throw writeError(error, part);
    }
  }

  async publish(): Promise<void> {
    try {
      for (const name of this.order) {
        const file = this.fileOf(name);
        fs.renameSync(file + PART, file);
        this.parts.delete(file + PART);
      }
      if (this.options.overwrite && !this.options.beside) {
        for (const name of staleShards(this.order, fs.readdirSync(this.folder))) fs.unlinkSync(this.fileOf(name));
      }
      const folder = fs.openSync(this.folder, 'r');
      try {
        fs.fsyncSync(folder);
      } finally {
        fs.closeSync(folder);
      }
    } catch (error) {
      throw writeError(error, this.folder);
    }
  }

  async abort(): Promise<void> {
    for (const descriptor of this.open.values()) fs.closeSync(descriptor);
    this.open.clear();
    for (const part of this.parts) fs.rmSync(part, { force: true });
    for (const folder of this.folders) {
      try {
        fs.rmdirSync(folder);
      } catch {
        break;  // somebody else has put something there
      }
    }
  }
}

/** Refuses what must not be written, and creates nothing: what a dry run asks, too. */
export function checkTarget(name: string, options: PathSinkOptions, folder: string, names: string[], input: SourceTree): void {
  if (name === '') throw new TftfError('usage', '--output is empty.');
  const there = fs.statSync(name, { throwIfNoEntry: false });
  if (there !== undefined && there.isDirectory() === (options.single ?? false)) {
    throw new TftfError('usage-path', `${quoteName(name)} ${there.isDirectory()
      ? 'is a folder where a file is to be written (--sharded writes into it)'
      : 'is a file where a folder is needed (--single replaces a file)'}.`, { file: name });
  }
  const target = realFolder(folder);
  if (fs.existsSync(target) && !fs.statSync(target).isDirectory()) throw refused(folder, `${quoteName(target)} is not a folder`);
  const source = (input as { folder?: string }).folder;
  const inputs = new Set<string>();
  if (source !== undefined) {
    const real = fs.realpathSync(source);
    const lone = input.main !== undefined && !input.main.endsWith('.json');
    if (!lone && (target === real || target.startsWith(`${real === '/' ? '' : real}/`))) {
      throw refused(name, 'it is or lies in the input folder');
    }
    for (const file of lone ? [input.main!] : fs.readdirSync(real)) inputs.add(identity(path.join(real, file)) ?? '');
  }
  for (const file of names.flatMap(one => [path.join(target, one), path.join(target, one + PART)])) {
    const id = identity(file);
    if (id !== undefined && inputs.has(id)) throw refused(file, 'it is an input');
  }
  if (!fs.existsSync(target)) return;
  if (!options.single && !options.beside) {
    // Stale shards are removed and side files replaced there, whatever they are called.
    for (const file of fs.readdirSync(target)) {
      const id = identity(path.join(target, file));
      if (id !== undefined && inputs.has(id)) throw refused(name, `it holds an input, ${quoteName(file)}`);
    }
  }
  const ours = new Set(names.flatMap(one => [one, one + PART]));
  for (const file of fs.readdirSync(target).sort()) {
    if ((options.single || options.beside) && !ours.has(file)) continue;
    const full = path.join(target, file);
    if (ours.has(file) && !fs.lstatSync(full).isSymbolicLink() && !fs.statSync(full).isFile()) {
      throw refused(full, 'it is there and is not a regular file');
    }
    if (options.overwrite || (ours.has(file) && file.endsWith(PART))) continue;
    throw options.single || options.beside ? refused(full, 'it exists already (--overwrite replaces it)')
      : refused(name, `the folder is not empty, it holds ${quoteName(file)} (--overwrite writes into it)`);
  }
}

function identity(file: string): string | undefined {
  const stats = fs.statSync(file, { bigint: true, throwIfNoEntry: false });
  return stats === undefined ? undefined : `${stats.dev}:${stats.ino}`;
}

/** A folder, or with `single` a file, of this machine: temporary names, fsync, rename, the index last. */
export function pathSink(name: string, options: PathSinkOptions = {}): OutputSink {
  if (typeof name !== 'string') throw new TftfError('usage', 'A path is a text.');
  return new PathSink(name, options);
}
