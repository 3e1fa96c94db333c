import type { TaskOptions } from './progress.js';

/** Rows and columns as a tensor is looked at: columns are the last dimension, rows all others together. */
export interface MatrixSize {
  rows: number;
  columns: number;
}

export interface Histogram {
  /** Of the finite values: first and last edge; bins are equally wide. */
  low: number;
  high: number;
  counts: number[];
}

/** A tensor's row of `stats --json` in numbers. */
export interface TensorStatistics {
  count: number;
  nan: number;
  infinite: number;
  zero: number;
  subnormal: number;
  negative: number;
  constant: boolean;
  /** Of the finite values; null when there are none. */
  min: number | null;
  max: number | null;
  mean: number | null;
  std: number | null;
  /** Null when there is no finite value. */
  histogram: Histogram | null;
}

export interface HeatMapOptions extends TaskOptions {
  /** The part to look at; the whole tensor when absent. */
  rowBegin?: number;
  rowEnd?: number;
  columnBegin?: number;
  columnEnd?: number;
  /** Most cells down and across; smaller tensors get one cell per value. */
  height?: number;
  width?: number;
  /** Bytes that may be read (64 MiB); beyond, rows are sampled evenly. */
  maxBytes?: number;
}

export interface HeatMap {
  height: number;
  width: number;
  /** Values that a cell stands for, down and across (the last cells may have fewer). */
  cellRows: number;
  cellColumns: number;
  /** Not every row was read. */
  sampled: boolean;
  /** Row by row; of the finite values of a cell, NaN when it has none. */
  mean: Float32Array;
  low: Float32Array;
  high: Float32Array;
  /** 1 where a cell holds a NaN or an infinity. */
  nonFinite: Uint8Array;
}

/** Values of one tensor, as stored or (`logical`) as its quantised layout means them. */
export interface TensorReader {
  readonly name: string;
  readonly dtype: string;
  readonly shape: number[];
  readonly elements: number;
  readonly matrix: MatrixSize;
  readonly logical: boolean;
  /** Decoded values of elements first .. first + count (at most 4,194,304); integers beyond 2^53 are rounded. */
  values(first: number, count: number, options?: TaskOptions): Promise<Float64Array>;
  /** One pass over the data, one more for the histogram. */
  statistics(options?: TaskOptions & { bins?: number }): Promise<TensorStatistics>;
  heatMap(options?: HeatMapOptions): Promise<HeatMap>;
}

/** Stored bytes of a tensor, for a hex view. */
export interface StoredTensor extends TensorReader {
  /** File and position of its first byte. */
  readonly file: string;
  readonly offset: number;
  readonly byteLength: number;
  /** A copy of bytes begin .. begin + length, counted from the tensor's first. */
  bytes(begin: number, length: number, options?: TaskOptions): Promise<Uint8Array>;
}

/** A dequantised view; holds memory until close(). */
export interface LogicalTensor extends TensorReader {
  close(): Promise<void>;
}
