import { loadAdapter } from './adapters.js';
import { argument, call, CoreMemory, loadCore, type Core, type CoreAdapterList, type CoreModel, type CoreTransformation } from './core.js';
import type { Account } from './documents.js';
import { TftfError } from './error.js';
import { OpenFiles } from './files.js';
import { readModel } from './model.js';
import type { TaskOptions } from './progress.js';
import { serve } from './serving.js';
import type { OutputFile } from './sink.js';
import type { SourceTree } from './source.js';
import { Task } from './task.js';
import type { Operation, PlanRequest, TransformPlan } from './transform.js';

/** The core's summary of a plan. */
export interface PlanSummary {
  inputs: { path: string; size: number }[];
  outputs: { name: string; size: number; known: boolean }[];
  sides: { name: string; copied: boolean; from: string; size: number; data: number; index: boolean }[];
  read: number;
  written: number;
  memory: number;
  phases: number;
}

// Longest text of an index that is looked at beside a lone file.
const INDEX_BYTES = 64 << 20;
// Memory that a run holds beside the core's: a block read and a block written.
const BLOCKS_BYTES = 64 << 20;

export class PlannedTransform implements TransformPlan {
  private closed = false;
  ran = false;
  /** `existing`: the output folder as it was read. */
  constructor(readonly core: Core, readonly model: CoreModel, readonly transformation: CoreTransformation,
    readonly files: OpenFiles, readonly singleName: string | null, readonly examining: boolean,
    private readonly sideSizes: ReadonlyMap<string, number>, private readonly existing?: CoreModel) {}

  summary(): PlanSummary { return JSON.parse(call(this.core, () => this.transformation.summary())); }
  text(steps = false): string { return call(this.core, () => this.transformation.text(steps)); }
  accountJson(): string { return call(this.core, () => this.transformation.account()); }
  account(): Account { return JSON.parse(this.accountJson()); }
  accountText(allNames = false): string { return call(this.core, () => this.transformation.accountText(allNames)); }

  /** Tensors' files, files beside them, the index last. */
  get outputs(): OutputFile[] {
    const { outputs, sides } = this.summary();
    const side = (index: boolean) => sides.filter(one => one.index === index)
      .map(one => ({ name: one.name, size: one.copied ? this.sideSizes.get(one.from) ?? 0 : one.size }));
    return [...outputs.map(({ name, size }) => ({ name, size })), ...side(false), ...side(true)];
  }
  get readBytes(): number { return this.summary().read; }
  get writtenBytes(): number { return this.summary().written; }
  get memoryBytes(): number { return this.summary().memory + BLOCKS_BYTES; }

  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    this.transformation.delete();
    this.model.delete();
    this.existing?.delete();
    await this.files.close();
  }
}

async function warnOfIndex(core: Core, transformation: CoreTransformation, files: OpenFiles, names: string[],
  task: Task): Promise<void> {
  const memory = new CoreMemory(core);
  try {
    for (const name of names) {
      const source = await files.get(name, task.signal).catch(() => undefined);
      if (source === undefined || source.size > INDEX_BYTES) continue;
      const bytes = await source.read(0, source.size, task.signal);
      const at = memory.reserve(bytes.length);
      core.HEAPU8.set(bytes, at);
      if (call(core, () => transformation.warnOfIndex(name, at, bytes.length))) return;
    }
  } finally {
    memory.close();
  }
}

/** Hands files to `list`; their numbers, by option. */
function addFiles(core: Core, list: CoreAdapterList, files: Record<string, Uint8Array>): Record<string, number> {
  const numbers: Record<string, number> = {};
  for (const [option, bytes] of Object.entries(files)) {
    const memory = new CoreMemory(core);
    try {
      const at = memory.reserve(Math.max(bytes.length, 1));
      core.HEAPU8.set(bytes, at);
      numbers[option] = call(core, () => list.addFile(at, bytes.length));
    } finally {
      memory.close();
    }
  }
  return numbers;
}

/** Reads a model that tensors are taken from into `list`; its number there. Its files stay open. */
async function loadOther(core: Core, list: CoreAdapterList, tree: SourceTree, files: OpenFiles, sideSizes: Map<string, number>,
  maxHeader: number | undefined, task: Task): Promise<number> {
  const place = files.add(tree);
  const own = new OpenFiles(tree);
  let model: CoreModel | undefined;
  try {
    model = await readModel(core, own, { strict: true, maxHeader }, task);
    const folder = await tree.list(task.signal);
    for (const { path, size } of folder) sideSizes.set(`${place}//${path}`, size);
    return call(core, () => list.addModel(model!, place, JSON.stringify(folder)));
  } finally {
    model?.delete();
    await own.close();
  }
}

/** Reads the adapters and other models of operations into `list`; what the core is told of the operations. */
async function withAdapters(core: Core, list: CoreAdapterList, operations: Operation[], files: OpenFiles, sideSizes: Map<string, number>,
  maxHeader: number | undefined, task: Task): Promise<unknown[]> {
  const told: unknown[] = [];
  for (const { id, options = [], adapter, from, files: contents = {} } of operations) {
    if (from !== undefined) {
      const named = options.some(option => option.name === 'from') ? options : [...options, { name: 'from', values: [from.given] }];
      told.push({ id, options: named, other: await loadOther(core, list, from, files, sideSizes, maxHeader, task) });
      continue;
    }
    if (adapter === undefined) {
      told.push({ id, options, files: addFiles(core, list, contents) });
      continue;
    }
    const has = (name: string) => options.some(option => option.name === name);
    const tokenizer = options.some(({ name, values }) => name === 'tokenizer-from' && values[0] === 'adapter');
    const { load, given } = await loadAdapter(core, adapter, maxHeader, task, tokenizer);
    const named = [...options];
    if (!has('adapter')) named.push({ name: 'adapter', values: [given] });
    if (adapter.config !== undefined && !has('adapter-config')) named.push({ name: 'adapter-config', values: [adapter.config.given] });
    try {
      told.push({ id, options: named, adapter: call(core, () => list.add(load)) });
    } finally {
      load.delete();
    }
  }
  return told;
}

export interface TransformOptions extends PlanRequest {
  maxHeader?: number | undefined;
  /** Look at the values and write nothing. */
  examine?: boolean;
  /** Bytes of one step; for tests. */
  tileBytes?: number | undefined;
}

function checkRequest(request: TransformOptions): void {
  const { operations, singleName } = request ?? {};
  if (!Array.isArray(operations) || operations.some(one => typeof one?.id !== 'string')) {
    throw new TftfError('usage', 'A plan needs its operations, a list of {id, options}.');
  }
  for (const { options = [] } of operations) {
    if (!Array.isArray(options) || options.some(one => typeof one?.name !== 'string')) {
      throw new TftfError('usage', 'The options of an operation are a list of {name, values}.');
    }
  }
  if (singleName === undefined || singleName === null) return;
  if (typeof singleName !== 'string' || /^\.{0,2}$|[/\0]/.test(singleName)) {
    throw new TftfError('usage', '"singleName" is not the name of a file.');
  }
}

/** Reads a model strictly and plans operations over it; nothing is written. */
export async function planTransform(tree: SourceTree, request: TransformOptions, options: TaskOptions = {}): Promise<PlannedTransform> {
  const core = await loadCore();
  const task = new Task(options);
  checkRequest(request);
  const files = new OpenFiles(tree);
  let model: CoreModel | undefined;
  let transformation: CoreTransformation | undefined;
  const adapters = call(core, () => core.openAdapterList());
  try {
    const sideSizes = new Map<string, number>();
    const operations = await withAdapters(core, adapters, request.operations, files, sideSizes, request.maxHeader, task);
    model = await readModel(core, files, { strict: true, maxHeader: request.maxHeader }, task);
    const folder = await tree.list(task.signal);
    transformation = call(core, () => core.openTransform(model!, adapters, argument({
      command: request.command ?? request.operations[0]?.id ?? 'passthrough',
      operations,
      input: tree.given,
      output: request.output,
      dryRun: request.dryRun ?? false,
      examine: request.examine ?? false,
      singleName: request.singleName ?? null,
      maxShardSize: request.maxShardSize ?? null,
      align: request.align ?? false,
      tileBytes: request.tileBytes ?? null,
      folder,
    })));
    let answered = 0;
    await serve(core, transformation, files, task, undefined, file => task.report('planning', ++answered, answered, file));
    call(core, () => transformation!.take());
    if (tree.main !== undefined && !tree.main.endsWith('.json')) {
      const indexes = folder.filter(entry => !entry.folder && !entry.irregular && entry.path.endsWith('.safetensors.index.json'));
      await warnOfIndex(core, transformation, files, indexes.map(entry => entry.path), task);
    }
    for (const { path, size } of folder) sideSizes.set(path, size);
    return new PlannedTransform(core, model, transformation, files, request.singleName ?? null, request.examine ?? false, sideSizes);
  } catch (error) {
    transformation?.delete();
    model?.delete();
    await files.close();
    throw error;
  } finally {
    adapters.delete();
  }
}

export interface FolderRequest {
  /** The command line of a converter of colibri's containers. */
  words: string[];
  output: string;
  dryRun: boolean;
  maxHeader?: number | undefined;
  tileBytes?: number | undefined;
}

/** Plans a converter of a folder of shards. `existing`: the output folder, where it is there. */
export async function planFolder(tree: SourceTree, existing: SourceTree | undefined, request: FolderRequest,
  options: TaskOptions = {}): Promise<PlannedTransform> {
  const core = await loadCore();
  const task = new Task(options);
  const files = new OpenFiles(tree);
  const models: CoreModel[] = [];
  let transformation: CoreTransformation | undefined;
  const read = async (from: OpenFiles) => {
    models.push(await readModel(core, from, { strict: false, maxHeader: request.maxHeader }, task));
  };
  try {
    await read(files);
    if (existing !== undefined) {
      const others = new OpenFiles(existing);
      try {
        await read(others);
      } finally {
        await others.close();
      }
    }
    const { words, output, dryRun } = request;
    transformation = call(core, () => core.openFolderTransform(models[0]!, models[1] ?? null, argument({
      words, input: tree.given, output, dryRun, tileBytes: request.tileBytes ?? null,
    })));
    await serve(core, transformation, files, task);
    call(core, () => transformation!.take());
    const sizes = new Map((await tree.list(task.signal)).map(entry => [entry.path, entry.size]));
    return new PlannedTransform(core, models[0]!, transformation, files, null, false, sizes, models[1]);
  } catch (error) {
    transformation?.delete();
    for (const model of models) model.delete();
    await files.close();
    throw error;
  }
}

export interface AdapterRequest {
  /** The command line of `adapter convert`, from these two words on: ['adapter', 'convert', '--to', 'kohya', ...]. */
  words: string[];
  /** Where it is to go, in words, for the account. */
  output: string;
  /** The one file that is written; absent: a folder. */
  singleName?: string | undefined;
  dryRun: boolean;
  maxHeader?: number | undefined;
  tileBytes?: number | undefined;
}

/**
 * Plans the conversion of an adapter into another family, to be run like the plan of a checkpoint. `base`: the model whose
 * names decide, where one is given. Rejected as the command refuses.
 */
export async function planAdapter(tree: SourceTree, base: SourceTree | undefined, request: AdapterRequest,
  options: TaskOptions = {}): Promise<PlannedTransform> {
  const core = await loadCore();
  const task = new Task(options);
  const files = new OpenFiles(tree);
  const models: CoreModel[] = [];
  let transformation: CoreTransformation | undefined;
  const read = async (from: OpenFiles) => {
    models.push(await readModel(core, from, { strict: true, maxHeader: request.maxHeader }, task));
  };
  try {
    await read(files);
    if (base !== undefined) {
      const others = new OpenFiles(base);
      try {
        await read(others);
      } finally {
        await others.close();
      }
    }
    const { words, output, singleName, dryRun } = request;
    transformation = call(core, () => core.openAdapterConversion(models[0]!, models[1] ?? null, argument({
      words, input: tree.given, output, singleName: singleName ?? '', dryRun, tileBytes: request.tileBytes ?? null,
    })));
    await serve(core, transformation, files, task);
    call(core, () => transformation!.take());
    return new PlannedTransform(core, models[0]!, transformation, files, singleName ?? null, false, new Map(), models[1]);
  } catch (error) {
    transformation?.delete();
    for (const model of models) model.delete();
    await files.close();
    throw error;
  }
}
