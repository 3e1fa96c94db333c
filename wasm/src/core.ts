import createCore from './core.mjs';
import { TftfError, type ErrorCode } from './error.js';

/** What asks for byte ranges until it has what it wants. */
export interface Pump {
  want(): string;
  supply(id: number, data: number, length: number): void;
  fail(id: number, reason: string): void;
}
interface Handle {
  delete(): void;
  isDeleted(): boolean;
}
export interface CoreModelReader extends Pump, Handle {
  wantFiles(): string;
  addFile(name: string, entry: string): void;
  done(): boolean;
  take(): CoreModel | null;
}
export interface CoreModel extends Pump, Handle {
  refusal(): string;
  broken(): string;
  info(filter: string): string;
  table(): string;
  infoText(options: string): string;
  adapterInfo(text: boolean): string;
  noAdapter(): string;
  matches(filter: string): boolean;
  operations(): string;
  sideFiles(): string;
  tensor(row: number): string;
}
export interface CoreLintRun extends Pump, Handle {
  finish(): void;
  beginData(): void;
  pieceCount(): number;
  dataBytes(): number;
  piece(index: number): number;
  dataFile(file: number): string;
  runPiece(index: number, first: number, second: number): void;
  failData(file: number, reason: string): void;
  dataFailed(file: number): boolean;
  nextStage(): boolean;
  finishData(): void;
}
export interface CoreLintReport extends Handle {
  add(run: CoreLintRun, place: string): void;
  finish(): void;
  failed(): boolean;
  render(format: string, style: string): string;
}
export interface CoreTransformation extends Pump, Handle {
  take(): void;
  warnOfIndex(name: string, text: number, length: number): boolean;
  text(steps: boolean): string;
  account(): string;
  accountText(allNames: boolean): string;
  summary(): string;
  phase(index: number): string;
  beginPhase(index: number): void;
  endPhase(index: number): void;
  io(step: number): number;
  run(step: number, pointers: number): void;
  residentLoaded(index: number): boolean;
  resident(index: number): number;
  loadResident(index: number, raw: number): void;
  gatherTiles(index: number): number;
  gatherIo(index: number, tile: number): number;
  gather(step: number, index: number, tile: number, pointers: number): void;
  copy(index: number): number;
  literal(index: number): number;
  entryName(entry: number): string;
  finish(bytesRead: number, bytesWritten: number): void;
  notes(): string;
  manifestName(): string;
  manifest(digests: string): string;
  validation(text: boolean, verbose: boolean, elapsedMs: number): string;
}

/** An adapter that is looked for and read. */
export interface CoreAdapterLoad extends Pump, Handle {
  ask(): string;
  answer(entries: string): void;
  found(): string;
  begin(model: CoreModel): void;
  beginDistributed(): void;
  archive(at: number, length: number): void;
  end(): void;
  configure(file: string, text: number, length: number): void;
  tokenizerFile(name: string, read: boolean, text: number, length: number): void;
  make(request: string): void;
  content(): string;
}
export interface CoreAdapterList extends Handle {
  add(load: CoreAdapterLoad): number;
  addModel(model: CoreModel, place: string, folder: string): number;
  addFile(at: number, length: number): number;
}

/** A pass over values: statistics, a heat map, a comparison. */
export interface CoreValueWork extends Pump, Handle {
  start(): void;
  pieceCount(): number;
  bytes(): number;
  piece(index: number): number;
  file(model: number, shard: number): string;
  runPiece(index: number, pointers: number): void;
  nextStage(): boolean;
  json(): string;
  text(width: number, ascii: boolean): string;
  difference(): string;
  selected(): number;
  cells(): number;
}
export interface CoreTensorView extends Pump, Handle {
  start(): string;
  ranges(first: number, count: number): number;
  file(shard: number): string;
  read(first: number, count: number, pointers: number, out: number): void;
}

/** The module's own functions (wasm/bindings). Anything may have failed: call them through call(). */
export interface Core {
  /** Views on the heap: taken anew after every call that may allocate. */
  readonly HEAPU8: Uint8Array;
  readonly HEAPU32: Uint32Array;
  readonly HEAPF64: Float64Array;
  takeError(): string;
  allocate(bytes: number): number;
  release(memory: number): void;
  version(): string;
  errorText(error: string): string;
  parseSize(text: string): number;
  operations(): string;
  openModel(request: string): CoreModelReader | null;
  openLint(request: string): CoreLintRun | null;
  openReport(options: string): CoreLintReport | null;
  openAdapter(request: string): CoreAdapterLoad | null;
  openAdapterList(): CoreAdapterList | null;
  openTransform(model: CoreModel, adapters: CoreAdapterList, request: string): CoreTransformation | null;
  checkOperation(operation: string): void;
  operationFiles(operation: string): string;
  naturalOrder(names: string): string;
  rules(id: string, text: boolean, colour: boolean): string;
  isIndexName(name: string): boolean;
  openFolderTransform(source: CoreModel, existing: CoreModel | null, request: string): CoreTransformation | null;
  openAdapterConversion(source: CoreModel, base: CoreModel | null, request: string): CoreTransformation | null;
  commandLine(words: string): string;
  completion(shell: string): string;
  formats(text: boolean): string;
  resolve(words: string): string;
  batch(tool: string, text: number, length: number, file: string): string;
  stamps(model: CoreModel, path: string, names: string): string;
  separateAdapters(entries: string): string;
  adapterList(documents: string): string;
  openStatistics(model: CoreModel, request: string): CoreValueWork | null;
  openHeatMap(model: CoreModel, request: string): CoreValueWork | null;
  openComparison(left: CoreModel, right: CoreModel, request: string): CoreValueWork | null;
  openTensor(model: CoreModel, row: number, logical: boolean): CoreTensorView | null;
}

export function errorOf(text: string): TftfError {
  const { code, message, ...parts } = JSON.parse(text).error;
  return new TftfError(code as ErrorCode, message, parts);
}

/** Frees an object of the core, once. */
export function free(handle: Handle | undefined): void {
  if (handle !== undefined && !handle.isDeleted()) handle.delete();
}

/** Arguments for the core; numbers that JSON does not have are refused, not taken for absent ones. */
export function argument(value: unknown): string {
  return JSON.stringify(value, (key, part: unknown) => {
    if (typeof part !== 'number' || Number.isFinite(part)) return part;
    throw new TftfError('usage', `"${key}" is not a number that can be meant.`);
  });
}

// Objects that close() has freed are refused by Embind, which checks them and the kinds of arguments.
function failureOf(error: unknown): TftfError {
  const message = error instanceof Error ? error.message : String(error);
  if ((error as { name?: string }).name === 'BindingError') {
    if (message.includes('deleted')) return new TftfError('usage', 'It is closed; nothing can be asked of it any more.');
    if (message.startsWith('Cannot pass non-string')) return new TftfError('usage', 'An argument is not a text.');
  }
  return new TftfError('internal', `A defect of this program: ${message}.`);
}

/** Calls the core; throws what it could not do. */
export function call<T>(core: Core, work: () => T): NonNullable<T> {
  let result: T;
  try {
    result = work();
  } catch (error) {
    if (error instanceof TftfError) throw error;
    throw failureOf(error);
  }
  const error = core.takeError();
  if (error !== '') throw errorOf(error);
  return result as NonNullable<T>;
}

/** Memory of the module, freed by close(). */
export class CoreMemory {
  private pointer = 0;
  private size = 0;
  constructor(private readonly core: Core) {}

  /** At least so many bytes, contents undefined; what it gave before is gone. */
  reserve(bytes: number): number {
    if (this.pointer !== 0 && bytes <= this.size) return this.pointer;
    this.close();
    this.pointer = bytes > 0xffff_0000 ? 0 : this.core.allocate(bytes);
    if (this.pointer === 0) {
      throw new TftfError('refused-memory', `There is not enough memory for ${bytes} bytes at once.`);
    }
    this.size = bytes;
    return this.pointer;
  }
  close(): void {
    if (this.pointer !== 0) this.core.release(this.pointer);
    this.pointer = 0;
    this.size = 0;
  }
}

/** How the module's bytes are found: by fetch in browsers, from disk in Node. */
export type WasmBytes = () => Promise<ArrayBuffer | Uint8Array>;

let wasmBytes: WasmBytes | undefined;
let loading: Promise<Core> | undefined;

/** Says where the module's bytes come from; before anything else is called. */
export function setWasm(bytes: WasmBytes): void {
  wasmBytes = bytes;
}

/** One instance for all; loaded when first needed. */
export function loadCore(): Promise<Core> {
  loading ??= (async () => {
    if (wasmBytes === undefined) throw new TftfError('internal', 'Nothing says where the module is.');
    return createCore({ wasmBinary: await wasmBytes() });
  })();
  // A failed download may succeed the next time.
  loading.catch(() => { loading = undefined; });
  return loading;
}
