import { TftfError } from './error.js';
import type { Progress, Stage, TaskOptions } from './progress.js';

const REPORT_MS = 100;
const BREATH_MS = 40;

/** Lets waiting events in, an abort among them. */
function nextTurn(): Promise<void> {
  return new Promise(resolve => {
    const immediate = (globalThis as { setImmediate?: (work: () => void) => void }).setImmediate;
    if (immediate !== undefined) immediate(resolve);
    else setTimeout(resolve, 0);
  });
}

/** Throws when the user has cancelled. */
export function checkSignal(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new TftfError('interrupted', 'Interrupted.');
}

/** One task's abort signal and progress. */
export class Task {
  private reported = 0;
  private breathed = performance.now();
  readonly signal: AbortSignal | undefined;
  private readonly onProgress: ((progress: Progress) => void) | undefined;

  constructor(options: TaskOptions = {}) {
    const { signal, onProgress } = options;
    if (signal !== undefined && typeof signal?.addEventListener !== 'function') throw new TftfError('usage', '"signal" is no AbortSignal.');
    if (onProgress !== undefined && typeof onProgress !== 'function') throw new TftfError('usage', '"onProgress" is no function.');
    this.signal = signal;
    this.onProgress = onProgress;
  }

  /** Throws when the user has cancelled. */
  check(): void {
    checkSignal(this.signal);
  }

  /** check(), and now and then a turn for other events. */
  async breathe(): Promise<void> {
    const now = performance.now();
    if (now - this.breathed > BREATH_MS) {
      await nextTurn();
      this.breathed = performance.now();
    }
    this.check();
  }

  /** Reported when it is time; always with `force`. */
  report(stage: Stage, done: number, total: number, item?: string, force = false): void {
    if (this.onProgress === undefined) return;
    const now = performance.now();
    if (!force && done !== total && now - this.reported < REPORT_MS) return;
    this.reported = now;
    this.onProgress(item === undefined ? { stage, done, total } : { stage, done, total, item });
  }
}
