// The page's end of the worker: one promise per call, with progress, cancelling and pausing.
import type { ComparisonDocument, HeatMap, HeatMapOptions, LintDocument, OperationInfo, Progress, ReportFormat, RuleInfo, TensorStatistics } from 'tftf';
import type { Failure, FromWorker, Opened, Origin, PagePlanRequest, PlanView, RunView, Target, ToWorker } from './messages';

export class EngineError extends Error {
  constructor(readonly failure: Failure) {
    super(failure.message);
  }
  get cancelled(): boolean {
    return this.failure.code === 'interrupted';
  }
}

export interface CallOptions {
  signal?: AbortSignal;
  onProgress?: (progress: Progress) => void;
  onCall?: (call: number) => void;
}

interface Pending {
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
  onProgress?: (progress: Progress) => void;
}

export class Engine {
  private readonly worker: Worker;
  private readonly pending = new Map<number, Pending>();
  private calls = 0;
  private heard = false; // it has been started
  private dead: Failure | null = null; // why the worker answers nothing any more

  constructor() {
    this.worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module', name: 'tftf' });
    this.worker.onmessage = (event: MessageEvent<FromWorker>) => this.receive(event.data);
    this.worker.onerror = (event) => this.fail(event.message || 'The page’s worker could not be started. Reload the page.');
  }

  open = (input: number, origin: Origin, options?: CallOptions) => this.call<Opened>('open', [input, origin], options);
  close = (input: number) => this.call<void>('close', [input]);
  operations = (input: number) => this.call<OperationInfo[]>('operations', [input]);
  lint = (input: number, data: boolean, base: number | null, options?: CallOptions) =>
    this.call<{ document: LintDocument; account: string; rules: RuleInfo[] }>('lint', [input, data, base], options);
  report = (input: number, format: ReportFormat) => this.call<string>('report', [input, format]);
  statistics = (input: number, tensor: number, logical: boolean, options?: CallOptions) =>
    this.call<TensorStatistics>('statistics', [input, tensor, logical], options);
  heatMap = (input: number, tensor: number, logical: boolean, part: HeatMapOptions, options?: CallOptions) =>
    this.call<HeatMap>('heatMap', [input, tensor, logical, part], options);
  values = (input: number, tensor: number, logical: boolean, first: number, count: number, options?: CallOptions) =>
    this.call<Float64Array>('values', [input, tensor, logical, first, count], options);
  bytes = (input: number, tensor: number, begin: number, length: number, options?: CallOptions) =>
    this.call<Uint8Array>('bytes', [input, tensor, begin, length], options);
  plan = (input: number, request: PagePlanRequest, options?: CallOptions) => this.call<PlanView>('plan', [input, request], options);
  run = (plan: number, target: Target, options?: CallOptions) => this.call<RunView>('run', [plan, target], options);
  freePlan = (plan: number) => this.call<void>('freePlan', [plan]);
  compare = (first: number, second: number, values: boolean, options?: CallOptions) => this.call<ComparisonDocument>('compare', [first, second, values], options);
  storedFiles = (plan: number) => this.call<{ path: string; file: File }[]>('storedFiles', [plan]);
  removeStored = (plan: number) => this.call<void>('removeStored', [plan]);

  pause(call: number, on: boolean): void {
    this.send({ pause: call, on });
  }

  private call<T>(method: string, args: unknown[], options: CallOptions = {}): Promise<T> {
    const call = ++this.calls;
    return new Promise<T>((resolve, reject) => {
      const { signal } = options;
      if (this.dead) return reject(new EngineError(this.dead));
      if (signal?.aborted) return reject(cancelled());
      const cancel = () => this.send({ cancel: call });
      signal?.addEventListener('abort', cancel, { once: true });
      const done = () => signal?.removeEventListener('abort', cancel);
      this.pending.set(call, {
        resolve: (result) => (done(), resolve(result as T)),
        reject: (error) => (done(), reject(error)),
        ...(options.onProgress && { onProgress: options.onProgress }),
      });
      this.send({ call, method, args });
      options.onCall?.(call);
    });
  }

  private send(message: ToWorker): void {
    this.worker.postMessage(message);
  }

  private receive(message: FromWorker): void {
    this.heard = true;
    const pending = this.pending.get(message.call);
    if (!pending) return;
    if ('progress' in message) return pending.onProgress?.(message.progress);
    this.pending.delete(message.call);
    if ('failure' in message) pending.reject(new EngineError(message.failure));
    else pending.resolve(message.result);
  }

  private fail(reason: string): void {
    const failure: Failure = { code: 'internal', message: reason, file: null, tensor: null, expected: null, found: null };
    if (!this.heard) this.dead = failure;
    for (const pending of this.pending.values()) pending.reject(new EngineError(failure));
    this.pending.clear();
  }
}

function cancelled(): EngineError {
  return new EngineError({ code: 'interrupted', message: 'Cancelled.', file: null, tensor: null, expected: null, found: null });
}
