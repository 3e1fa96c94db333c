// The page's worker: everything that reads, computes or writes runs here, through the package.
import { compare, lint, openCheckpoint, operations, rules, run, TftfError, type Checkpoint, type ComparisonDocument, type HeatMapOptions, type LintReport, type AdapterSource, type ReportFormat, type RuleInfo, type SourceTree, type TaskOptions, type TensorReader, type TransformPlan } from 'tftf';
import { adapterIn } from './adapters';
import { Gate } from './gate';
import { LogicalTensors } from './logical_tensor';
import type { Failure, FromWorker, Opened, Origin, PagePlanRequest, PlanView, RunView, SideText, Target, ToWorker } from './messages';
import { treeOf } from './origins';
import { discardLeftovers, removeStored, sinkOf, storedFiles } from './targets';
import { adapterConversionInfo, conversionIn, planAdapterConversion } from './adapter_conversion';
import { columnsOf, moduleTreeOf, summaryOf } from './tensor_columns';

interface OpenInput {
  tree: SourceTree;
  checkpoint: Checkpoint;
  report: LintReport | null;
  adapter?: AdapterSource; // what it was made from, when it is an adapter that is no file of its own
}

interface Task extends TaskOptions {
  signal: AbortSignal;
  gate: Gate;
}

const inputs = new Map<number, OpenInput>();
const plans = new Map<number, TransformPlan>();
const logicals = new LogicalTensors();
let planCount = 0;
let allRules: RuleInfo[] | null = null;

function inputOf(id: number): OpenInput {
  const input = inputs.get(id);
  if (!input) throw new TftfError('internal', 'The model is not open any more.');
  return input;
}

async function readerOf(id: number, tensor: number, logical: boolean): Promise<TensorReader> {
  const { checkpoint } = inputOf(id);
  return logical ? logicals.reader(checkpoint, tensor) : checkpoint.tensor(tensor);
}

// What the reader took along; of adapters and folders also the other small JSON files that a person may want to read.
async function sideTexts(tree: SourceTree, checkpoint: Checkpoint): Promise<SideText[]> {
  const texts = checkpoint.sideFiles().map(({ name, text }) => ({ name, text }));
  const known = new Set(texts.map(({ name }) => name));
  const wanted = ['config.json', 'adapter_config.json', 'generation_config.json', 'quantize_config.json', 'model_index.json'];
  for (const name of wanted) {
    if (known.has(name)) continue;
    const entry = await tree.find(name).catch(() => undefined);
    if (!entry || entry.folder || entry.unreadable !== undefined || entry.size === 0 || entry.size > 4e6) continue;
    // What is there besides the weights does not keep anybody from looking at them.
    const source = await tree.open(name).catch(() => undefined);
    const bytes = await source?.read(0, entry.size).catch(() => undefined);
    if (bytes) texts.push({ name, text: new TextDecoder().decode(bytes) });
    await source?.close();
  }
  return texts;
}

// The adapter that an input holds; of a folder with one weight file of another name, that file.
async function adapterOf(id: number): Promise<AdapterSource> {
  const { tree, checkpoint, adapter } = inputOf(id);
  if (adapter) return adapter;
  const { files } = checkpoint.info('\0'.repeat(8));
  const usual = await Promise.all(['adapter_model.safetensors', '.metadata'].map((name) => tree.find(name)));
  const named = tree.main === undefined && files.length === 1 && usual.every((entry) => entry === undefined);
  return { tree, ...(named && { file: files[0]!.name }) };
}

const methods = {
  async open(task: Task, id: number, origin: Origin): Promise<Opened> {
    const given = await treeOf(origin, task);
    const made = await adapterIn(given, task);
    const tree = made?.tree ?? given;
    const checkpoint = await openCheckpoint(tree, task);
    const sideFiles = await sideTexts(tree, checkpoint);
    // No name holds this: the totals come without the lists of tensors, which the table tells more briefly.
    const info = checkpoint.info('\0'.repeat(8));
    const tensors = columnsOf(checkpoint.table());
    const summary = summaryOf(info);
    summary.notes.unshift(...(made?.notices ?? []));
    const opened = { summary, tensors, tree: moduleTreeOf(tensors), sideFiles };
    inputs.set(id, { tree, checkpoint, report: null, ...(made && { adapter: made.from }) });
    return opened;
  },

  async close(_task: Task, id: number): Promise<void> {
    const input = inputs.get(id);
    inputs.delete(id);
    input?.report?.close();
    await logicals.clear();
    await input?.checkpoint.close();
    await input?.tree.close?.();
  },

  async operations(_task: Task, id: number) {
    const { checkpoint } = inputOf(id);
    const table = await checkpoint.operations();
    return checkpoint.info('\0'.repeat(8)).kind === 'adapter' ? [adapterConversionInfo, ...table] : table;
  },

  async lint(task: Task, id: number, data: boolean, base: number | null) {
    const input = inputOf(id);
    const report = await lint(input.tree, { signal: task.signal, ...(task.onProgress && { onProgress: task.onProgress }), data, ...(base !== null && { base: inputOf(base).tree }) });
    input.report?.close();
    input.report = report;
    allRules ??= await rules();
    const document = report.document();
    const found = new Set(document.issues.messages.map((message) => message.rule));
    // The last line of the text says how many rules were checked.
    const account = report.render('text', { quiet: false }).trimEnd().split('\n').pop() ?? '';
    return { document, account, rules: allRules.filter((rule) => found.has(rule.id)) };
  },

  async report(_task: Task, id: number, format: ReportFormat): Promise<string> {
    const { report } = inputOf(id);
    if (!report) throw new TftfError('internal', 'There is no report yet.');
    return report.render(format);
  },

  async statistics(task: Task, id: number, tensor: number, logical: boolean) {
    return (await readerOf(id, tensor, logical)).statistics({ ...task, bins: 64 });
  },
  async heatMap(task: Task, id: number, tensor: number, logical: boolean, part: HeatMapOptions) {
    return (await readerOf(id, tensor, logical)).heatMap({ ...part, ...task });
  },
  async values(task: Task, id: number, tensor: number, logical: boolean, first: number, count: number): Promise<Float64Array> {
    return (await readerOf(id, tensor, logical)).values(first, count, task);
  },
  async bytes(task: Task, id: number, tensor: number, begin: number, length: number): Promise<Uint8Array> {
    return inputOf(id).checkpoint.tensor(tensor).bytes(begin, length, task);
  },

  async compare(task: Task, first: number, second: number, values: boolean): Promise<ComparisonDocument> {
    const report = await compare(inputOf(first).tree, inputOf(second).tree, { signal: task.signal, ...(task.onProgress && { onProgress: task.onProgress }), values });
    try {
      return report.document();
    } finally {
      await report.close();
    }
  },

  async plan(task: Task, id: number, request: PagePlanRequest): Promise<PlanView> {
    const converted = conversionIn(request.operations);
    const operations = await Promise.all(request.operations.map(async ({ adapter, from, base: _, ...operation }) => ({
      ...operation, ...(adapter !== undefined && { adapter: await adapterOf(adapter) }), ...(from !== undefined && { from: inputOf(from).tree }),
    })));
    const base = request.operations[0]?.base;
    const made = converted === undefined ? await inputOf(id).checkpoint.plan({ ...request, operations, dryRun: false }, task)
      : await planAdapterConversion(inputOf(id).tree, base === undefined ? undefined : inputOf(base).tree, operations[0]!, request.singleName, task);
    const plan = ++planCount;
    plans.set(plan, made);
    return {
      plan,
      account: made.account(),
      outputs: [...made.outputs],
      // An option of the chain may ask for one file, too.
      singleName: made.singleName ?? (made.outputs.length === 1 ? made.outputs[0]!.name : null),
      readBytes: made.readBytes,
      writtenBytes: made.writtenBytes,
      memoryBytes: made.memoryBytes,
    };
  },

  async freePlan(_task: Task, plan: number): Promise<void> {
    const made = plans.get(plan);
    plans.delete(plan);
    await made?.close();
  },

  async run(task: Task, plan: number, target: Target): Promise<RunView> {
    const made = plans.get(plan);
    if (!made) throw new TftfError('internal', 'The plan is not there any more.');
    plans.delete(plan);
    try {
      const result = await run(made, await sinkOf(target, plan, task.gate), { signal: task.signal, ...(task.onProgress && { onProgress: task.onProgress }) });
      return {
        account: result.account(),
        accountText: result.accountText,
        bytesRead: result.bytesRead,
        bytesWritten: result.bytesWritten,
        elapsed: result.elapsed,
      };
    } catch (error) {
      await removeStored(plan);
      throw error;
    } finally {
      await made.close();
    }
  },

  storedFiles: (_task: Task, plan: number) => storedFiles(plan),
  removeStored: (_task: Task, plan: number) => removeStored(plan),
};

function failureOf(error: unknown, aborted: boolean): Failure {
  const nothing = { file: null, tensor: null, expected: null, found: null };
  if (aborted) return { code: 'interrupted', message: 'Cancelled.', ...nothing };
  if (error instanceof TftfError) {
    const { code, message, file, tensor, expected, found } = error;
    return { code, message, file, tensor, expected, found };
  }
  if (error instanceof DOMException) {
    const code = error.name === 'QuotaExceededError' ? 'io-space' : error.name === 'NotAllowedError' ? 'io-write' : 'io-read';
    return { code, message: `${error.message}`, ...nothing };
  }
  return { code: 'internal', message: error instanceof Error ? error.message : String(error), ...nothing };
}

const running = new Map<number, { abort: AbortController; gate: Gate }>();
const reply = (message: FromWorker, transfer: Transferable[] = []) => (self as unknown as Worker).postMessage(message, transfer);

// Buffers of the answer that are its own are handed over.
function buffersOf(result: unknown): Transferable[] {
  const found = new Set<ArrayBuffer>();
  const look = (value: unknown, depth: number) => {
    if (ArrayBuffer.isView(value)) {
      if (value.buffer instanceof ArrayBuffer && value.byteLength === value.buffer.byteLength) found.add(value.buffer);
    } else if (depth > 0 && typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype) {
      for (const part of Object.values(value)) look(part, depth - 1);
    }
  };
  look(result, 2);
  return [...found];
}

async function answer(call: number, method: string, args: unknown[]): Promise<void> {
  const abort = new AbortController();
  const gate = new Gate();
  running.set(call, { abort, gate });
  const task: Task = { signal: abort.signal, gate, onProgress: (progress) => reply({ call, progress }) };
  try {
    const work = methods[method as keyof typeof methods] as (task: Task, ...args: unknown[]) => Promise<unknown>;
    const result = await work(task, ...args);
    reply({ call, result }, buffersOf(result));
  } catch (error) {
    reply({ call, failure: failureOf(error, abort.signal.aborted) });
  } finally {
    running.delete(call);
  }
}

self.onmessage = (event: MessageEvent<ToWorker>) => {
  const message = event.data;
  if ('cancel' in message) {
    const task = running.get(message.cancel);
    task?.abort.abort();
    task?.gate.set(false);
  } else if ('pause' in message) {
    running.get(message.pause)?.gate.set(message.on);
  } else {
    void answer(message.call, message.method, message.args);
  }
};

void discardLeftovers();
// The module is fetched while the person still looks for the file.
void operations().catch(() => undefined);
