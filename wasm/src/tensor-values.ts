import { call, CoreMemory, type Core } from './core.js';
import { TftfError } from './error.js';
import type { OpenFiles } from './files.js';
import type { TaskOptions } from './progress.js';
import { Task } from './task.js';
import type { HeatMap, HeatMapOptions, MatrixSize, StoredTensor, TensorReader, TensorStatistics } from './tensor.js';

const MOST_VALUES = 4_194_304;
const CHUNK_BYTES = 8 << 20;
// A run of so many elements is whole bytes in any dtype.
const WHOLE = 8;
const HEAT_BYTES = 64 << 20;
// Rows that are read one by one.
const HEAT_ROWS = 4096;
const MOST_CELLS = 4096;

interface Shown {
  name: string;
  dtype: string;
  /** Of one element. */
  bits: number;
  shape: number[];
}

/** Values of one tensor, whatever makes their bytes. */
export abstract class TensorValues implements TensorReader {
  readonly name: string;
  readonly dtype: string;
  readonly shape: number[];
  readonly elements: number;
  readonly matrix: MatrixSize;
  abstract readonly logical: boolean;
  protected readonly bits: number;

  constructor(protected readonly core: Core, shown: Shown) {
    ({ name: this.name, dtype: this.dtype, bits: this.bits, shape: this.shape } = shown);
    this.elements = this.shape.reduce((product, dimension) => product * dimension, 1);
    const columns = this.shape.length === 0 ? 1 : this.shape[this.shape.length - 1]!;
    this.matrix = { rows: columns === 0 ? 0 : this.elements / columns, columns };
  }

  /** Brings elements first .. first + count into `memory` of the core; `first` begins a byte. */
  protected abstract load(first: number, count: number, memory: CoreMemory, task: Task): Promise<number>;

  private async decoded(first: number, count: number, memory: CoreMemory, into: CoreMemory, task: Task): Promise<number> {
    const begin = first - first % WHOLE;
    const lead = first - begin;
    const data = await this.load(begin, lead + count, memory, task);
    const out = into.reserve(8 * (lead + count));
    call(this.core, () => this.core.decode(this.dtype, data, lead + count, out));
    return out + 8 * lead;
  }

  /** Memory of one call: stored bytes, decoded values. */
  private async withMemory<T>(work: (stored: CoreMemory, decoded: CoreMemory) => Promise<T>): Promise<T> {
    const memories = [new CoreMemory(this.core), new CoreMemory(this.core)] as const;
    try {
      return await work(...memories);
    } finally {
      for (const memory of memories) memory.close();
    }
  }

  async values(first: number, count: number, options: TaskOptions = {}): Promise<Float64Array> {
    if (!(first >= 0 && count >= 0 && count <= MOST_VALUES && first + count <= this.elements)) {
      throw new TftfError('usage', 'There are no such elements.');
    }
    if (count === 0) return new Float64Array(0);
    return this.withMemory(async (stored, decoded) => {
      const at = await this.decoded(first, count, stored, decoded, new Task(options)) / 8;
      return this.core.HEAPF64.slice(at, at + count);
    });
  }

  private async eachChunk(task: Task, done: number, total: number, work: (data: number, count: number) => void): Promise<void> {
    const most = Math.floor(CHUNK_BYTES * 8 / this.bits / WHOLE) * WHOLE;
    await this.withMemory(async memory => {
      for (let first = 0; first < this.elements; first += most) {
        await task.breathe();
        const count = Math.min(most, this.elements - first);
        const data = await this.load(first, count, memory, task);
        call(this.core, () => work(data, count));
        task.report('reading', done + (first + count) * this.bits / 8, total, this.name);
      }
    });
  }

  async statistics(options: TaskOptions & { bins?: number } = {}): Promise<TensorStatistics> {
    const task = new Task(options);
    const bytes = this.elements * this.bits / 8;
    const statistics = call(this.core, () => this.core.openStatistics(this.dtype));
    try {
      await this.eachChunk(task, 0, 2 * bytes, (data, count) => statistics.add(data, count));
      call(this.core, () => statistics.beginHistogram(options.bins ?? 128));
      await this.eachChunk(task, bytes, 2 * bytes, (data, count) => statistics.addHistogram(data, count));
      return JSON.parse(call(this.core, () => statistics.json()));
    } finally {
      statistics.delete();
    }
  }

  async heatMap(options: HeatMapOptions = {}): Promise<HeatMap> {
    const task = new Task(options);
    const part = new HeatPart(this.matrix, options, this.bits);
    // Rows of sub-byte elements begin anywhere: those are decoded first.
    const decoded = this.bits < 8;
    const heat = call(this.core, () =>
      this.core.openHeatMap(decoded ? 'F64' : this.dtype, part.columns, part.cellColumns, part.height));
    try {
      await this.withMemory(async (stored, values) => {
        let done = 0;
        for (const { row, count, cellRow } of part.runs()) {
          await task.breathe();
          const first = row * this.matrix.columns + part.columnBegin;
          const length = (count - 1) * this.matrix.columns + part.columns;
          const data = decoded ? await this.decoded(first, length, stored, values, task)
            : await this.load(first, length, stored, task);
          const size = decoded ? 8 : this.bits / 8;
          for (let i = 0; i < count; ++i) {
            call(this.core, () => heat.add(cellRow(row + i), 0, data + i * this.matrix.columns * size, part.columns));
          }
          done += count;
          task.report('reading', done, part.rowsRead, this.name);
        }
      });
      call(this.core, () => heat.finish());
      const cells = part.height * part.width;
      const floats = (at: number) => this.core.HEAPF32.slice(at / 4, at / 4 + cells);
      const flags = heat.nonFinite();
      return {
        height: part.height, width: part.width, cellRows: part.cellRows, cellColumns: part.cellColumns,
        sampled: part.sampled, mean: floats(heat.mean()), low: floats(heat.low()), high: floats(heat.high()),
        nonFinite: this.core.HEAPU8.slice(flags, flags + cells),
      };
    } finally {
      heat.delete();
    }
  }
}

/** Which rows of a matrix are read for a heat map, and to which cells they belong. */
class HeatPart {
  readonly rowBegin: number;
  readonly columnBegin: number;
  readonly rows: number;
  readonly columns: number;
  readonly cellRows: number;
  readonly cellColumns: number;
  readonly height: number;
  readonly width: number;
  readonly sampled: boolean;
  readonly rowsRead: number;
  private readonly together: number;
  private readonly perCell: number;

  constructor(matrix: MatrixSize, options: HeatMapOptions, bits: number) {
    const range = (begin = 0, end = Infinity, size = 0): [number, number] => {
      const from = Math.min(Math.max(0, Math.floor(begin)), size);
      return [from, Math.max(0, Math.min(Math.ceil(end), size) - from)];
    };
    [this.rowBegin, this.rows] = range(options.rowBegin, options.rowEnd, matrix.rows);
    [this.columnBegin, this.columns] = range(options.columnBegin, options.columnEnd, matrix.columns);
    if (this.rows === 0 || this.columns === 0) throw new TftfError('usage', 'There are no values to show there.');
    const cells = (most = 256) => Math.min(Math.max(1, Math.floor(most)), MOST_CELLS);
    this.cellRows = Math.ceil(this.rows / cells(options.height));
    this.cellColumns = Math.ceil(this.columns / cells(options.width));
    this.height = Math.ceil(this.rows / this.cellRows);
    this.width = Math.ceil(this.columns / this.cellColumns);
    const rowBytes = Math.max(1, this.columns * bits / 8);
    const whole = this.columns === matrix.columns;
    const most = Math.min((options.maxBytes ?? HEAT_BYTES) / rowBytes, whole ? Infinity : HEAT_ROWS);
    this.sampled = this.rows > most;
    this.perCell = this.sampled ? Math.max(1, Math.min(this.cellRows, Math.floor(most / this.height))) : this.cellRows;
    this.together = whole && !this.sampled ? Math.max(1, Math.floor(CHUNK_BYTES / rowBytes)) : 1;
    let read = 0;
    for (let cell = 0; cell < this.height; ++cell) {
      read += Math.min(this.perCell, this.rows - cell * this.cellRows);
    }
    this.rowsRead = read;
  }

  *runs(): Generator<{ row: number; count: number; cellRow: (row: number) => number }> {
    const cellRow = (row: number) => Math.floor((row - this.rowBegin) / this.cellRows);
    if (!this.sampled) {
      for (let row = 0; row < this.rows; row += this.together) {
        yield { row: this.rowBegin + row, count: Math.min(this.together, this.rows - row), cellRow };
      }
      return;
    }
    for (let cell = 0; cell < this.height; ++cell) {
      const begin = cell * this.cellRows;
      const rows = Math.min(this.cellRows, this.rows - begin);
      const count = Math.min(this.perCell, rows);
      for (let i = 0; i < count; ++i) {
        yield { row: this.rowBegin + begin + Math.floor((i + 0.5) * rows / count), count: 1, cellRow };
      }
    }
  }
}

export interface StoredPlace extends Shown {
  file: string;
  offset: number;
  bytes: number;
}

/** A tensor's values as they are stored. */
export class StoredValues extends TensorValues implements StoredTensor {
  readonly logical = false;
  readonly file: string;
  readonly offset: number;
  readonly byteLength: number;

  constructor(core: Core, private readonly files: OpenFiles, place: StoredPlace) {
    super(core, place);
    this.file = place.file;
    this.offset = place.offset;
    this.byteLength = place.bytes;
  }

  protected async load(first: number, count: number, memory: CoreMemory, task: Task): Promise<number> {
    const begin = first * this.bits / 8;
    const length = Math.ceil(count * this.bits / 8);
    if (begin + length > this.byteLength) throw new TftfError('refused-input', 'The tensor is shorter than its shape says.');
    const source = await this.files.get(this.file, task.signal);
    const bytes = await source.read(this.offset + begin, length, task.signal);
    const data = memory.reserve(length);
    this.core.HEAPU8.set(bytes, data);
    return data;
  }

  async bytes(begin: number, length: number, options: TaskOptions = {}): Promise<Uint8Array> {
    if (!(begin >= 0 && length >= 0 && begin + length <= this.byteLength)) {
      throw new TftfError('usage', 'There are no such bytes.');
    }
    const task = new Task(options);
    task.check();
    const source = await this.files.get(this.file, task.signal);
    return (await source.read(this.offset + begin, length, task.signal)).slice();
  }
}
