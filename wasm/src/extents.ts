import { CoreMemory, type Core } from './core.js';
import type { OpenFiles } from './files.js';
import type { Task } from './task.js';

/** A byte range of an input or output; `rows` > 1: runs of `rowBytes`, `stride` apart. */
export interface Extent {
  file: number;
  rows: number;
  offset: number;
  rowBytes: number;
  stride: number;
}

export const EXTENT_NUMBERS = 5;
/** The core's buffers start at multiples of this. */
export const ALIGN = 64;
// Unwanted bytes between two ranges that are read along rather than asked for apart.
const GAP = 64 << 10;
// A strided rectangle is read whole up to this length, when its gaps are small.
const SPAN = 32 << 20;

export function alignUp(value: number): number {
  return Math.ceil(value / ALIGN) * ALIGN;
}

export function extentAt(numbers: Float64Array, at: number): Extent {
  return { file: numbers[at]!, rows: numbers[at + 1]!, offset: numbers[at + 2]!, rowBytes: numbers[at + 3]!, stride: numbers[at + 4]! };
}

export const bytesOf = (extent: Extent): number => extent.rowBytes * extent.rows;

// A part of an extent that is read at once: all of it, or one row of a rectangle whose rows lie far apart.
interface Piece {
  owner: number;
  file: number;
  begin: number;
  end: number;
  rows: number;
  rowBytes: number;
  stride: number;
  /** Its place in the extent. */
  at: number;
}
interface Run {
  file: number;
  begin: number;
  end: number;
  pieces: Piece[];
}

/**
 * Reads extents of inputs into the core's memory: neighbours in one go, each extent then at a multiple of
 * ALIGN, rows back to back.
 */
export class ExtentReader {
  private readonly raw: CoreMemory;
  private readonly placed: CoreMemory;

  constructor(private readonly core: Core, private readonly files: OpenFiles, private readonly pathOf: (file: number) => string,
    private readonly task: Task) {
    this.raw = new CoreMemory(core);
    this.placed = new CoreMemory(core);
  }

  close(): void {
    this.raw.close();
    this.placed.close();
  }

  /** Gives where each extent lies; good until the next call. `most`: longest single read of several extents. */
  async read(extents: Extent[], most: number): Promise<number[]> {
    const runs = runsOf(extents.flatMap(piecesOf), most);
    const bases: number[] = [];
    let total = 0;
    for (const run of runs) {
      bases.push(total);
      total += alignUp(run.end - run.begin);
    }
    const raw = this.raw.reserve(total);
    for (const [i, run] of runs.entries()) await this.fill(run, raw + bases[i]!);
    return this.place(extents, runs, bases, raw);
  }

  private async fill(run: Run, at: number): Promise<void> {
    const length = run.end - run.begin;
    const source = await this.files.get(this.pathOf(run.file), this.task.signal);
    if (source.readSync !== undefined) {
      source.readSync(run.begin, this.core.HEAPU8.subarray(at, at + length));
    } else {
      // First the bytes, then the view: the memory may grow meanwhile, and old views are void then.
      const bytes = await source.read(run.begin, length, this.task.signal);
      this.core.HEAPU8.set(bytes, at);
    }
  }

  /** Extents that are not aligned where they were read, or in rows, are moved to memory of their own. */
  private place(extents: Extent[], runs: Run[], bases: number[], raw: number): number[] {
    const pointers = extents.map(() => raw);
    const moves: { piece: Piece; from: number }[] = [];
    const moved = new Map<number, number>();
    let total = 0;
    for (const [i, run] of runs.entries()) {
      for (const piece of run.pieces) {
        const from = raw + bases[i]! + piece.begin - run.begin;
        if (extents[piece.owner]!.rows === 1 && from % ALIGN === 0) {
          pointers[piece.owner] = from;
          continue;
        }
        if (!moved.has(piece.owner)) {
          moved.set(piece.owner, total);
          total += alignUp(bytesOf(extents[piece.owner]!));
        }
        moves.push({ piece, from });
      }
    }
    if (moves.length === 0) return pointers;
    const placed = this.placed.reserve(total);
    const heap = this.core.HEAPU8;
    for (const { piece, from } of moves) {
      const to = placed + moved.get(piece.owner)! + piece.at;
      for (let row = 0; row < piece.rows; ++row) {
        const begin = from + row * piece.stride;
        heap.copyWithin(to + row * piece.rowBytes, begin, begin + piece.rowBytes);
      }
    }
    for (const [owner, at] of moved) pointers[owner] = placed + at;
    return pointers;
  }
}

function piecesOf(extent: Extent, owner: number): Piece[] {
  const { file, offset, rows, rowBytes, stride } = extent;
  if (bytesOf(extent) === 0) return [];
  const end = offset + (rows - 1) * stride + rowBytes;
  if (rows === 1 || (stride - rowBytes <= GAP && end - offset <= SPAN)) {
    return [{ owner, file, begin: offset, end, rows, rowBytes, stride, at: 0 }];
  }
  return Array.from({ length: rows }, (_, row) => ({
    owner, file, begin: offset + row * stride, end: offset + row * stride + rowBytes, rows: 1, rowBytes, stride: 0,
    at: row * rowBytes,
  }));
}

function runsOf(pieces: Piece[], most: number): Run[] {
  const runs: Run[] = [];
  for (const piece of pieces.sort((a, b) => a.file - b.file || a.begin - b.begin)) {
    const run = runs[runs.length - 1];
    if (run !== undefined && run.file === piece.file && piece.begin - run.end <= GAP
      && (piece.end <= run.end || piece.end - run.begin <= most)) {
      run.end = Math.max(run.end, piece.end);
      run.pieces.push(piece);
    } else {
      runs.push({ file: piece.file, begin: piece.begin, end: piece.end, pieces: [piece] });
    }
  }
  return runs;
}
