import { writeSync } from 'node:fs';
import { call, loadCore } from '../core.js';
import { TftfError, type ErrorCode } from '../error.js';
import type { Progress } from '../progress.js';
import { flag, size, type CommandLine } from './arguments.js';

export function exitStatus(code: ErrorCode): number {
  if (code === 'interrupted') return 130;
  if (code === 'internal') return 3;
  return code.startsWith('usage') ? 2 : 1;
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

const MOST_COLUMNS = 10_000;
const USUAL_COLUMNS = 80;
const LEAST_COLUMNS = 20;

/** COLUMNS as shells export it. */
function columnsVariable(): number | undefined {
  const text = process.env['COLUMNS'] ?? '';
  const columns = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  return columns >= LEAST_COLUMNS && columns <= MOST_COLUMNS ? columns : undefined;
}
/** Columns of a terminal; 0: it is none. */
export function terminalWidth(stream: NodeJS.WriteStream): number {
  if (!stream.isTTY) return 0;
  return columnsVariable() ?? (stream.columns >= LEAST_COLUMNS ? stream.columns : USUAL_COLUMNS);
}
/** Columns of what is printed: COLUMNS, the terminal's, or 80. */
export const tableWidth = (): number => columnsVariable() ?? (terminalWidth(process.stdout) || USUAL_COLUMNS);
/** The locale of the environment has no UTF-8. */
export function asciiWanted(): boolean {
  const locale = ['LC_ALL', 'LC_CTYPE', 'LANG'].map(name => process.env[name]).find(text => text);
  return locale === undefined || !/utf-?8/i.test(locale);
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
  private unread = false;
  private shown = Date.now();
  private readonly interruption = new AbortController();

  constructor() {
    const stop = () => this.interruption.abort();
    process.once('SIGINT', stop);
    process.once('SIGTERM', stop);
  }

  async take(line: CommandLine): Promise<void> {
    this.json = flag(line, 'json');
    this.quiet = flag(line, 'quiet');
    this.verbose = flag(line, 'verbose');
    this.progress = !flag(line, 'no-progress') && !this.quiet;
    this.maxMemory = await size(line, 'max-memory');
    this.maxHeader = await size(line, 'max-header');
  }

  get task(): { signal: AbortSignal; onProgress?: (progress: Progress) => void } {
    const { signal } = this.interruption;
    return this.progress ? { signal, onProgress: progress => this.show(progress) } : { signal };
  }

  print(text: string): void {
    this.clear();
    if (this.unread) return;
    try {
      writeAll(1, text);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // A reader that goes away is no failure: what it wanted it has read.
      if (code !== 'EPIPE') throw new TftfError('io-write', 'The standard output could not be written.');
      this.unread = true;
    }
  }
  warn(sentence: string): void { this.say(`warning: ${sentence}\n`); }
  say(text: string): void {
    this.clear();
    this.tell(text);
  }
  private tell(text: string): void {
    try {
      writeAll(2, text);
    } catch {
      // Nobody listens.
    }
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
    const mebibytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(0);
    const text = `${stage} ${Math.floor(100 * done / total)} %`;
    const sizes = `, ${mebibytes(done)} of ${mebibytes(total)} MiB`;
    // A terminal wraps what reaches its last column.
    const fits = !terminal || text.length + sizes.length < terminalWidth(process.stderr);
    this.tell(terminal ? `\r\x1b[K${text}${fits ? sizes : ''}` : `${text}${sizes}\n`);
    this.drawn = terminal;
  }
  private clear(): void {
    if (this.drawn) this.tell('\r\x1b[K');
    this.drawn = false;
  }
}
