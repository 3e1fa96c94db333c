import { call, CoreMemory, type Core, type CoreValueWork } from './core.js';
import { bytesOf, EXTENT_NUMBERS, extentAt, ExtentReader, type Extent } from './extents.js';
import type { OpenFiles } from './files.js';
import { serve } from './serving.js';
import type { Task } from './task.js';

// Pieces that are read together, whatever the block of the source is.
const MOST_PIECES = 64;

interface Piece {
  /** Of each model. */
  extents: Extent[][];
  /** Model and position in its extents, in the order of the piece's ranges. */
  order: [number, number][];
}

/** Drives a pass over the values of one or two models to its end. */
export async function runValueWork(core: Core, work: CoreValueWork, models: OpenFiles[], task: Task, item?: string): Promise<void> {
  await serve(core, work, models[0]!, task, models[1]);
  call(core, () => work.start());
  const readers = models.map((files, model) =>
    new ExtentReader(core, files, shard => call(core, () => work.file(model, shard)), task));
  const pointers = new CoreMemory(core);
  const block = Math.max(...models.map(files => files.tree.block));
  try {
    let stage: 'reading' | 'comparing' = 'reading';
    do {
      const count = call(core, () => work.pieceCount());
      const total = call(core, () => work.bytes());
      let done = 0;
      for (let next = 0; next < count;) {
        await task.breathe();
        const pieces: Piece[] = [];
        let bytes = 0;
        while (next + pieces.length < count && pieces.length < MOST_PIECES) {
          const piece = pieceAt(core, work, next + pieces.length, models.length);
          const length = piece.extents.flat().reduce((sum, extent) => sum + bytesOf(extent), 0);
          if (pieces.length > 0 && bytes + length > block) break;
          pieces.push(piece);
          bytes += length;
        }
        const places: number[][] = [];
        for (const [model, reader] of readers.entries()) {
          places.push(await reader.read(pieces.flatMap(piece => piece.extents[model]!), block));
        }
        const begins = models.map(() => 0);
        const table = pointers.reserve(4 * Math.max(...pieces.map(piece => piece.order.length)));
        for (const [i, { extents, order }] of pieces.entries()) {
          order.forEach(([model, at], k) => { core.HEAPU32[table / 4 + k] = places[model]![begins[model]! + at]!; });
          call(core, () => work.runPiece(next + i, table));
          extents.forEach((list, model) => { begins[model]! += list.length; });
        }
        next += pieces.length;
        done += bytes;
        task.report(stage, done, total, item);
      }
      task.report(stage, total, total, item, true);
      stage = 'comparing';
    } while (call(core, () => work.nextStage()));
  } finally {
    pointers.close();
    for (const reader of readers) reader.close();
  }
}

function pieceAt(core: Core, work: CoreValueWork, index: number, models: number): Piece {
  const start = call(core, () => work.piece(index)) / 8;
  const numbers = core.HEAPF64;
  const piece: Piece = { extents: Array.from({ length: models }, () => []), order: [] };
  for (let i = 0; i < numbers[start]!; ++i) {
    const at = start + 1 + (1 + EXTENT_NUMBERS) * i;
    const model = numbers[at]!;
    const list = piece.extents[model]!;
    piece.order.push([model, list.length]);
    list.push(extentAt(numbers, at + 1));
  }
  return piece;
}
