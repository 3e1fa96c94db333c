import { call, CoreMemory, type Core, type CoreTransformation } from './core.js';
import { TftfError } from './error.js';
import { alignUp, bytesOf, EXTENT_NUMBERS, extentAt, ExtentReader, type Extent } from './extents.js';
import { changedError } from './files.js';
import { PlannedTransform, type PlanSummary } from './planning.js';
import type { Stage, TaskOptions } from './progress.js';
import type { OutputSink, OutputWriter } from './sink.js';
import { Task } from './task.js';
import type { RunResult, TransformPlan } from './transform.js';

interface PhaseInfo {
  first: number;
  count: number;
  firstCopy: number;
  copies: number;
  firstLiteral: number;
  literals: number;
  readBytes: number;
  writes: boolean;
}

interface Step {
  index: number;
  entry: number;
  in: Extent[];
  out: Extent[];
  residents: number[];
}

const totalBytes = (extents: Extent[]): number => extents.reduce((sum, extent) => sum + bytesOf(extent), 0);

// Steps that are read, run and written together, whatever the blocks of source and sink are.
const MOST_STEPS = 256;

/** One run of a plan: its phases step by step, many steps to a read and a write. */
class Run {
  private readonly core: Core;
  private readonly transformation: CoreTransformation;
  private readonly reader: ExtentReader;
  private readonly residentReader: ExtentReader;
  private readonly output: CoreMemory;
  private readonly pointers: CoreMemory;
  private readonly writers = new Map<number, OutputWriter>();
  private summary: PlanSummary;
  private copied = new Uint8Array(0);
  private begun = false;
  /** What steps and copies asked for; what is read along, and residents, are not counted. */
  private bytesRead = 0;
  private bytesWritten = 0;
  private done = 0;
  private total = 0;
  private readonly elapsed = { read: 0, compute: 0, write: 0, finish: 0 };

  constructor(private readonly plan: PlannedTransform, private readonly sink: OutputSink | undefined,
    private readonly task: Task) {
    this.core = plan.core;
    this.transformation = plan.transformation;
    this.summary = plan.summary();
    const pathOf = (file: number) => this.summary.inputs[file]!.path;
    this.reader = new ExtentReader(this.core, plan.files, pathOf, task);
    this.residentReader = new ExtentReader(this.core, plan.files, pathOf, task);
    this.output = new CoreMemory(this.core);
    this.pointers = new CoreMemory(this.core);
  }

  async go(): Promise<RunResult> {
    try {
      // What must not be written is refused before anything is read, where the sizes of the result are known by now.
      if (this.sink !== undefined && this.summary.outputs.every(output => output.known)) await this.begin(this.sink);
      await this.checkInputs();
      for (let phase = 0; phase < this.summary.phases; ++phase) await this.phase(phase);
      if (this.sink !== undefined) await this.finish(this.sink);
      else await this.checkInputs();
    } catch (error) {
      if (this.begun) await this.sink!.abort().catch(() => undefined);
      throw error;
    } finally {
      for (const one of [this.reader, this.residentReader, this.output, this.pointers]) one.close();
    }
    const { bytesRead } = this;
    // A run that only looks has an account of its own (the validation).
    if (this.sink !== undefined) call(this.core, () => this.transformation.finish(bytesRead, this.bytesWritten));
    return {
      account: () => this.plan.account(),
      accountJson: this.plan.accountJson(),
      accountText: this.plan.accountText(),
      bytesRead,
      bytesWritten: this.bytesWritten,
      elapsed: this.elapsed,
    };
  }

  /** The files are still those whose headers were read. */
  private async checkInputs(): Promise<void> {
    for (const input of this.summary.inputs) {
      this.task.check();
      const source = await this.plan.files.get(input.path, this.task.signal);
      if (source.size !== input.size) throw changedError(input.path);
      await source.check();
    }
  }

  private async timed<T>(what: 'read' | 'write' | 'finish', work: () => Promise<T>): Promise<T> {
    const start = performance.now();
    try {
      return await work();
    } finally {
      this.elapsed[what] += performance.now() - start;
    }
  }

  private async phase(index: number): Promise<void> {
    const phase: PhaseInfo = JSON.parse(call(this.core, () => this.transformation.phase(index)));
    if (phase.writes && this.sink !== undefined) await this.begin(this.sink);
    this.done = 0;
    this.total = phase.writes ? this.summary.written : phase.readBytes;
    const stage: Stage = phase.writes && this.sink !== undefined ? 'writing' : 'measuring';
    call(this.core, () => this.transformation.beginPhase(index));
    for (let i = 0; i < phase.literals; ++i) await this.literal(phase.firstLiteral + i);
    for (let i = 0; i < phase.copies; ++i) await this.copy(phase.firstCopy + i, stage);
    for (let step = phase.first; step < phase.first + phase.count;) {
      await this.task.breathe();
      const batch = this.batch(step, phase.first + phase.count);
      await this.runBatch(batch, phase.writes);
      step += batch.length;
      const item = call(this.core, () => this.transformation.entryName(batch[batch.length - 1]!.entry));
      this.task.report(stage, this.done, this.total, item);
    }
    this.task.report(stage, this.total, this.total, undefined, true);
    call(this.core, () => this.transformation.endPhase(index));
    this.summary = this.plan.summary();
  }

  private async begin(sink: OutputSink): Promise<void> {
    if (this.begun) return;
    // One that has failed half way is undone, too.
    this.begun = true;
    await sink.begin(this.plan.outputs, this.plan.files.tree);
  }

  private async writer(file: number): Promise<OutputWriter> {
    let writer = this.writers.get(file);
    if (writer === undefined) {
      const { name, size } = this.summary.outputs[file]!;
      writer = await this.sink!.create({ name, size });
      this.writers.set(file, writer);
    }
    return writer;
  }

  /** `view` is called last: other tasks may let the core's memory grow, which voids older views of it. */
  private async write(file: number, offset: number, view: () => Uint8Array): Promise<void> {
    const length = await this.timed('write', async () => {
      const writer = await this.writer(file);
      const bytes = view();
      const { length } = bytes;
      await writer.write(offset, bytes);
      return length;
    });
    this.bytesWritten += length;
    this.done += length;
  }

  private async literal(index: number): Promise<void> {
    const at = call(this.core, () => this.transformation.literal(index)) / 8;
    const [file, offset, length, data] = this.core.HEAPF64.subarray(at, at + 4);
    await this.write(file!, offset!, () => this.core.HEAPU8.subarray(data!, data! + length!));
  }

  private async copy(index: number, stage: Stage): Promise<void> {
    const at = call(this.core, () => this.transformation.copy(index)) / 8;
    const [from, fromOffset, length, to, toOffset] = [...this.core.HEAPF64.subarray(at, at + 5)] as [number, number, number, number, number];
    const path = this.summary.inputs[from]!.path;
    const block = Math.max(this.plan.files.tree.block, this.sink?.block ?? 0);
    for (let begin = 0; begin < length; begin += block) {
      await this.task.breathe();
      const bytes = await this.timed('read', () => this.block(path, fromOffset + begin, Math.min(block, length - begin)));
      this.bytesRead += bytes.length;
      await this.write(to, toOffset + begin, () => bytes);
      this.task.report(stage, this.done, this.total, path);
    }
  }

  /** Good until the next one. */
  private async block(path: string, offset: number, length: number): Promise<Uint8Array> {
    const source = await this.plan.files.get(path, this.task.signal);
    if (source.readSync === undefined) return source.read(offset, length, this.task.signal);
    if (this.copied.length < length) this.copied = new Uint8Array(length);
    const bytes = this.copied.subarray(0, length);
    source.readSync(offset, bytes);
    return bytes;
  }

  private step(index: number): Step {
    const start = call(this.core, () => this.transformation.io(index)) / 8;
    const numbers = this.core.HEAPF64;
    const [ins, outs, residents, entry] = [numbers[start]!, numbers[start + 1]!, numbers[start + 2]!, numbers[start + 3]!];
    let at = start + 4;
    const extents = (count: number) => Array.from({ length: count }, () => {
      const extent = extentAt(numbers, at);
      at += EXTENT_NUMBERS;
      return extent;
    });
    return { index, entry, in: extents(ins), out: extents(outs), residents: [...numbers.subarray(at, at + residents)] };
  }

  /** The steps from `first` on that fit a block of the source and one of the sink. */
  private batch(first: number, end: number): Step[] {
    const steps: Step[] = [];
    let read = 0;
    let written = 0;
    while (first + steps.length < end && steps.length < MOST_STEPS) {
      const step = this.step(first + steps.length);
      read += totalBytes(step.in);
      written += totalBytes(step.out);
      const fits = read <= this.plan.files.tree.block && written <= (this.sink?.block ?? this.plan.files.tree.block);
      if (steps.length > 0 && !fits) break;
      steps.push(step);
    }
    return steps;
  }

  private async runBatch(steps: Step[], writes: boolean): Promise<void> {
    const { core, transformation } = this;
    const inputs = await this.timed('read', () => this.reader.read(steps.flatMap(step => step.in), this.plan.files.tree.block));
    const outputs = steps.flatMap(step => step.out);
    const places = placesOf(outputs);
    const base = this.output.reserve(places.total);
    const table = this.pointers.reserve(4 * (1 + Math.max(...steps.map(step => step.in.length + step.out.length))));
    let nextIn = 0;
    let nextOut = 0;
    for (const step of steps) {
      for (const resident of step.residents) await this.loadResident(resident, step.index);
      const start = performance.now();
      let at = table / 4;
      for (let i = 0; i < step.in.length; ++i) core.HEAPU32[at++] = inputs[nextIn++]!;
      for (let i = 0; i < step.out.length; ++i) core.HEAPU32[at++] = base + places.at[nextOut++]!;
      call(core, () => transformation.run(step.index, table));
      this.elapsed.compute += performance.now() - start;
    }
    const read = steps.reduce((sum, step) => sum + totalBytes(step.in), 0);
    this.bytesRead += read;
    if (!writes || this.sink === undefined) {
      this.done += read;
      return;
    }
    for (const run of places.runs) {
      await this.write(run.file, run.offset, () => core.HEAPU8.subarray(base + run.at, base + run.at + run.length));
    }
  }

  private async loadResident(index: number, step: number): Promise<void> {
    const { core, transformation } = this;
    if (call(core, () => transformation.residentLoaded(index))) return;
    const tiles = call(core, () => transformation.gatherTiles(index));
    if (tiles > 0) return this.gatherResident(index, step, tiles);
    const start = call(core, () => transformation.resident(index)) / 8;
    const numbers = core.HEAPF64;
    const rawBytes = numbers[start + 1]!;
    const extents = Array.from({ length: numbers[start]! }, (_, i) => extentAt(numbers, start + 2 + EXTENT_NUMBERS * i));
    const raw = new CoreMemory(core);
    try {
      const whole = raw.reserve(rawBytes);
      let at = whole;
      for (const extent of extents) {
        const [from] = await this.timed('read', () => this.residentReader.read([extent], this.plan.files.tree.block));
        core.HEAPU8.copyWithin(at, from!, from! + bytesOf(extent));
        at += bytesOf(extent);
      }
      call(core, () => transformation.loadResident(index, whole));
    } finally {
      raw.close();
    }
  }

  /** Norms of columns and the like: all of a tensor is read once before its first tile is written. */
  private async gatherResident(index: number, step: number, tiles: number): Promise<void> {
    const { core, transformation } = this;
    const pointers = new CoreMemory(core);
    try {
      for (let tile = 0; tile < tiles; ++tile) {
        await this.task.breathe();
        const start = call(core, () => transformation.gatherIo(index, tile)) / 8;
        const numbers = core.HEAPF64;
        const extents = Array.from({ length: numbers[start]! }, (_, i) => extentAt(numbers, start + 1 + EXTENT_NUMBERS * i));
        const inputs = await this.timed('read', () => this.residentReader.read(extents, this.plan.files.tree.block));
        const table = pointers.reserve(4 * (1 + inputs.length));
        const begun = performance.now();
        inputs.forEach((input, i) => { core.HEAPU32[table / 4 + i] = input; });
        call(core, () => transformation.gather(step, index, tile, table));
        this.elapsed.compute += performance.now() - begun;
      }
    } finally {
      pointers.close();
    }
  }

  private async finish(sink: OutputSink): Promise<void> {
    await this.begin(sink);
    for (const file of this.summary.outputs.keys()) await this.writer(file);
    await this.sides(sink);
    await this.checkInputs();
    const total = this.writers.size + 1;
    let closed = 0;
    await this.timed('finish', async () => {
      for (const [file, writer] of this.writers) {
        this.task.check();
        this.task.report('finishing', closed, total, this.summary.outputs[file]!.name, true);
        await writer.close();
        ++closed;
      }
      this.task.check();
      this.task.report('finishing', closed, total, undefined, true);
      await sink.publish();
    });
    this.task.report('finishing', total, total, undefined, true);
  }

  private async sides(sink: OutputSink): Promise<void> {
    const sizes = new Map(this.plan.outputs.map(file => [file.name, file.size]));
    for (const side of this.summary.sides) {
      this.task.check();
      const size = sizes.get(side.name)!;
      const from = side.copied ? await this.plan.files.get(side.from, this.task.signal) : undefined;
      const like = from?.file === undefined ? {} : { like: from.file };
      const writer = await sink.create({ name: side.name, size, copied: side.copied, ...like });
      const bytes = from !== undefined ? await from.read(0, size, this.task.signal)
        : this.core.HEAPU8.subarray(side.data, side.data + side.size);
      if (bytes.length > 0) await this.timed('write', () => writer.write(0, bytes));
      await this.timed('finish', () => writer.close());
    }
  }
}

interface Places {
  total: number;
  /** Of each extent. */
  at: number[];
  /** What can be written in one go. */
  runs: { file: number; offset: number; at: number; length: number }[];
}

/** Where outputs lie in memory: what follows in the file follows there too, as far as alignment allows. */
function placesOf(outputs: Extent[]): Places {
  const order = outputs.map((_, i) => i).sort((a, b) =>
    outputs[a]!.file - outputs[b]!.file || outputs[a]!.offset - outputs[b]!.offset);
  const places: Places = { total: 0, at: new Array(outputs.length).fill(0), runs: [] };
  for (const i of order) {
    const { file, offset } = outputs[i]!;
    const length = bytesOf(outputs[i]!);
    const run = places.runs[places.runs.length - 1];
    const aligned = alignUp(places.total);
    places.at[i] = aligned;
    places.total = aligned + length;
    if (length === 0) continue;
    if (run !== undefined && run.file === file && run.offset + run.length === offset && run.at + run.length === aligned) {
      run.length += length;
    } else {
      places.runs.push({ file, offset, at: aligned, length });
    }
  }
  return places;
}

function started(plan: TransformPlan, examining: boolean): PlannedTransform {
  if (!(plan instanceof PlannedTransform) || plan.examining !== examining) {
    throw new TftfError('usage', 'This is no plan that can be run so.');
  }
  if (plan.ran) throw new TftfError('usage', 'A plan runs once; make it anew.');
  plan.ran = true;
  return plan;
}

/** Runs a plan to its end, once. Whatever rejects it leaves nothing behind. */
export async function run(plan: TransformPlan, sink: OutputSink, options: TaskOptions = {}): Promise<RunResult> {
  const { begin, create, publish, abort } = (sink ?? {}) as Partial<OutputSink>;
  if ([begin, create, publish, abort].some(member => typeof member !== 'function')) {
    throw new TftfError('usage', 'This is nothing that a result can be written to, as folderSink(), fileSink() or pathSink() make it.');
  }
  const task = new Task(options);
  return new Run(started(plan, false), sink, task).go();
}

/** Runs a plan that writes nothing (`validate`), for what its phases see. */
export async function examine(plan: TransformPlan, options: TaskOptions = {}): Promise<RunResult> {
  return new Run(started(plan, true), undefined, new Task(options)).go();
}
