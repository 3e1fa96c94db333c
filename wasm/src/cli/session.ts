import { writeSync } from 'node:fs';
import { call, loadCore } from '../core.js';
import { TftfError, type ErrorCode } from '../error.js';
import type { Progress } from '../progress.js';
import { flag, usage, value, type Arguments, type OptionRule } from './arguments.js';

/** Options of every command. */
export const COMMON: OptionRule[] = [
  { name: 'help', short: 'h', values: 0, shows: '', help: 'Show this help' },
  { name: 'json', values: 0, shows: '', help: 'Give the result as one JSON document on stdout' },
  { name: 'no-progress', values: 0, shows: '', help: 'Show no progress' },
  { name: 'quiet', short: 'q', values: 0, shows: '', help: 'Say nothing but results, warnings and errors' },
  { name: 'verbose', short: 'v', values: 0, shows: '', help: 'Say more' },
  { name: 'max-memory', values: 1, shows: 'SIZE', help: 'Refuse what cannot be done within this much memory' },
  { name: 'max-header', values: 1, shows: 'SIZE', help: 'Longest header that is read (100MB)' },
  // Taken as the native program takes it; there is one thread here.
  { name: 'threads', values: 1 },
];

export function exitStatus(code: ErrorCode): number {
  if (code === 'interrupted') return 130;
  if (code === 'internal') return 3;
  return code.startsWith('usage') ? 2 : 1;
}

export async function size(text: string): Promise<number> {
  const core = await loadCore();
  return call(core, () => core.parseSize(text));
}

function writeAll(descriptor: number, text: string): void {
  const bytes = Buffer.from(text);
  for (let done = 0; done < bytes.length;) {
    try {
      done += writeSync(descriptor, bytes, done);
    } catch (error) {
      // A full pipe that does not wait.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}

/** One run of the program: common options, where its words go, how it ends. */
export class Session {
  json = false;
  quiet = false;
  verbose = false;
  maxMemory: number | undefined;
  maxHeader: number | undefined;
  private progress = true;
  private drawn = false;
  private shown = Date.now();
  private readonly interruption = new AbortController();

  constructor() {
    const stop = () => this.interruption.abort();
    process.once('SIGINT', stop);
    process.once('SIGTERM', stop);
  }

  async take(args: Arguments): Promise<void> {
    this.json = flag(args, 'json');
    this.quiet = flag(args, 'quiet');
    this.verbose = flag(args, 'verbose');
    this.progress = !flag(args, 'no-progress') && !this.quiet;
    const threads = value(args, 'threads');
    if (threads !== undefined && !(/^\d{1,4}$/.test(threads) && Number(threads) >= 1 && Number(threads) <= 1024)) {
      throw usage(`--threads: Value ${threads} not in range 1 to 1024.`);
    }
    const memory = value(args, 'max-memory');
    if (memory !== undefined) this.maxMemory = await size(memory);
    const header = value(args, 'max-header');
    if (header !== undefined) this.maxHeader = await size(header);
  }

  get task(): { signal: AbortSignal; onProgress?: (progress: Progress) => void } {
    const { signal } = this.interruption;
    return this.progress ? { signal, onProgress: progress => this.show(progress) } : { signal };
  }

  print(text: string): void {
    this.clear();
    writeAll(1, text);
  }
  warn(sentence: string): void { this.say(`warning: ${sentence}\n`); }
  say(text: string): void {
    this.clear();
    writeAll(2, text);
  }

  /** Says why, with --json as data too, and gives the exit status. */
  async fail(error: unknown): Promise<number> {
    const known = error instanceof TftfError ? error
      : new TftfError('internal', `A defect of this program: ${error instanceof Error ? error.message : String(error)}.`);
    if (this.json) {
      const core = await loadCore();
      const { code, message, file, tensor, expected, found } = known;
      this.print(call(core, () => core.errorText(JSON.stringify({ code, message, file, tensor, expected, found }))));
    }
    this.say(`tftf: ${known.message}\n`);
    return exitStatus(known.code);
  }

  private show({ stage, done, total }: Progress): void {
    if (total === 0 || stage === 'headers' || stage === 'planning' || stage === 'finishing') return;
    const terminal = process.stderr.isTTY ?? false;
    if (Date.now() - this.shown < (terminal ? 100 : 10_000)) return;
    this.shown = Date.now();
    const text = `${stage} ${Math.floor(100 * done / total)} %, ${(done / 2 ** 20).toFixed(0)} of ${(total / 2 ** 20).toFixed(0)} MiB`;
    writeAll(2, terminal ? `\r\x1b[K${text}` : `${text}\n`);
    this.drawn = terminal;
  }
  private clear(): void {
    if (this.drawn) writeAll(2, '\r\x1b[K');
    this.drawn = false;
  }
}
