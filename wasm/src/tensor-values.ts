import { argument, call, CoreMemory, free, type Core, type CoreModel, type CoreTensorView } from './core.js';
import type { Count, Real, StatisticsDocument, StatisticsRow } from './documents.js';
import { TftfError } from './error.js';
import { EXTENT_NUMBERS, extentAt, ExtentReader } from './extents.js';
import type { OpenFiles } from './files.js';
import type { TaskOptions } from './progress.js';
import { serve } from './serving.js';
import { Task } from './task.js';
import type { HeatMap, HeatMapOptions, LogicalTensor, MatrixSize, StoredTensor, TensorReader, TensorStatistics } from './tensor.js';
import { runValueWork } from './value-work.js';

const MOST_VALUES = 4_194_304;
const HEAT_BYTES = 64 << 20;

/** A tensor of an open checkpoint. */
export interface TensorPlace {
  row: number;
  name: string;
  dtype: string;
  shape: number[];
  file: string;
  offset: number;
  bytes: number;
}

interface ViewShape {
  dtype: string;
  shape: number[];
  elements: number;
  rows: number;
  columns: number;
}

function matrixOf(shape: number[]): MatrixSize {
  const elements = shape.reduce((product, dimension) => product * dimension, 1);
  const columns = shape.length === 0 ? 1 : shape[shape.length - 1]!;
  return { rows: columns === 0 ? 0 : elements / columns, columns };
}

const isPart = (begin: number, length: number, whole: number): boolean =>
  Number.isInteger(begin) && Number.isInteger(length) && begin >= 0 && length >= 0 && begin + length <= whole;

const number = (value: Real | Count | null): number | null => value === null ? null : Number(value);

function inNumbers(row: StatisticsRow): TensorStatistics {
  const { count, nan, infinite, zero, subnormal, negative, constant, min, max, mean, std, histogram } = row;
  return {
    count: Number(count), nan: Number(nan), infinite: Number(infinite), zero: Number(zero),
    subnormal: Number(subnormal), negative: Number(negative), constant,
    min: number(min), max: number(max), mean: number(mean), std: number(std),
    histogram: histogram === null ? null
      : { low: Number(histogram.low), high: Number(histogram.high), counts: histogram.counts.map(Number) },
  };
}

abstract class TensorValues implements TensorReader {
  readonly name: string;
  readonly elements: number;
  readonly matrix: MatrixSize;
  abstract readonly logical: boolean;

  constructor(protected readonly core: Core, protected readonly model: CoreModel, protected readonly files: OpenFiles,
    protected readonly place: TensorPlace, readonly dtype: string, readonly shape: number[]) {
    this.name = place.name;
    this.elements = shape.reduce((product, dimension) => product * dimension, 1);
    this.matrix = matrixOf(shape);
  }

  /** The view to read from; `done` is called when it is not needed any more. */
  protected abstract view(task: Task): Promise<{ view: CoreTensorView; done: () => void }>;

  async values(first: number, count: number, options: TaskOptions = {}): Promise<Float64Array> {
    if (!isPart(first, count, this.elements) || count > MOST_VALUES) {
      throw new TftfError('usage', 'There are no such elements.');
    }
    if (count === 0) return new Float64Array(0);
    const task = new Task(options);
    const { core } = this;
    const { view, done } = await this.view(task);
    const reader = new ExtentReader(core, this.files, shard => call(core, () => view.file(shard)), task);
    const out = new CoreMemory(core);
    const table = new CoreMemory(core);
    try {
      const start = call(core, () => view.ranges(first, count)) / 8;
      const numbers = core.HEAPF64;
      const extents = Array.from({ length: numbers[start]! }, (_, i) => extentAt(numbers, start + 1 + EXTENT_NUMBERS * i));
      const places = await reader.read(extents, this.files.tree.block);
      const values = out.reserve(8 * count);
      const pointers = table.reserve(4 * places.length);
      places.forEach((place, i) => { core.HEAPU32[pointers / 4 + i] = place; });
      call(core, () => view.read(first, count, pointers, values));
      return core.HEAPF64.slice(values / 8, values / 8 + count);
    } finally {
      for (const one of [reader, out, table]) one.close();
      done();
    }
  }

  async statistics(options: TaskOptions & { bins?: number } = {}): Promise<TensorStatistics> {
    const { core } = this;
    const work = call(core, () => core.openStatistics(this.model, argument({
      names: [this.name], logical: this.logical, bins: options.bins ?? 128,
    })));
    try {
      await runValueWork(core, work, [this.files], new Task(options), this.name);
      const document: StatisticsDocument = JSON.parse(call(core, () => work.json()));
      const found = document.tensors[0];
      if (found === undefined) throw new TftfError('refused-input', 'The file of this tensor is not sound.', { tensor: this.name });
      return inNumbers(found);
    } finally {
      work.delete();
    }
  }

  async heatMap(options: HeatMapOptions = {}): Promise<HeatMap> {
    const { core } = this;
    const { rowBegin, rowEnd, columnBegin, columnEnd, height = 256, width = 256, maxBytes = HEAT_BYTES } = options;
    const request = { rowBegin, rowEnd, columnBegin, columnEnd, height, width, maxBytes, row: this.place.row, logical: this.logical };
    const work = call(core, () => core.openHeatMap(this.model, argument(request)));
    try {
      await runValueWork(core, work, [this.files], new Task(options), this.name);
      const start = call(core, () => work.cells()) / 8;
      const [height, width, cellRows, cellColumns, sampled, mean, low, high, flags] =
        core.HEAPF64.subarray(start, start + 9) as unknown as [number, number, number, number, number, number, number, number, number];
      const cells = height * width;
      const floats = (at: number) => Float32Array.from(core.HEAPF64.subarray(at / 8, at / 8 + cells));
      return {
        height, width, cellRows, cellColumns, sampled: sampled === 1,
        mean: floats(mean), low: floats(low), high: floats(high), nonFinite: core.HEAPU8.slice(flags, flags + cells),
      };
    } finally {
      work.delete();
    }
  }
}

/** A tensor's values as they are stored. */
export class StoredValues extends TensorValues implements StoredTensor {
  readonly logical = false;
  readonly file: string;
  readonly offset: number;
  readonly byteLength: number;

  constructor(core: Core, model: CoreModel, files: OpenFiles, place: TensorPlace) {
    super(core, model, files, place, place.dtype, place.shape);
    this.file = place.file;
    this.offset = place.offset;
    this.byteLength = place.bytes;
  }

  protected async view(): Promise<{ view: CoreTensorView; done: () => void }> {
    const view = call(this.core, () => this.core.openTensor(this.model, this.place.row, false));
    try {
      call(this.core, () => view.start());
    } catch (error) {
      view.delete();
      throw error;
    }
    return { view, done: () => view.delete() };
  }

  async bytes(begin: number, length: number, options: TaskOptions = {}): Promise<Uint8Array> {
    if (!isPart(begin, length, this.byteLength)) {
      throw new TftfError('usage', 'There are no such bytes.');
    }
    const task = new Task(options);
    task.check();
    const source = await this.files.get(this.file, task.signal);
    return (await source.read(this.offset + begin, length, task.signal)).slice();
  }
}

class LogicalValues extends TensorValues implements LogicalTensor {
  readonly logical = true;
  constructor(core: Core, model: CoreModel, files: OpenFiles, place: TensorPlace, shape: ViewShape,
    private readonly opened: CoreTensorView) {
    super(core, model, files, place, shape.dtype, shape.shape);
  }
  protected async view(): Promise<{ view: CoreTensorView; done: () => void }> {
    return { view: this.opened, done: () => undefined };
  }
  async close(): Promise<void> { free(this.opened); }
}

/** The tensor through its quantised layout. */
export async function openLogical(core: Core, model: CoreModel, files: OpenFiles, place: TensorPlace,
  options: TaskOptions = {}): Promise<LogicalTensor> {
  const view = call(core, () => core.openTensor(model, place.row, true));
  try {
    await serve(core, view, files, new Task(options));
    const shape: ViewShape = JSON.parse(call(core, () => view.start()));
    return new LogicalValues(core, model, files, place, shape, view);
  } catch (error) {
    view.delete();
    throw error;
  }
}
