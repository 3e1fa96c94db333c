import { call, CoreMemory, type Core, type Pump } from './core.js';
import { TftfError } from './error.js';
import { OpenFiles, readReason } from './files.js';
import { inParallel } from './parallel.js';
import type { Task } from './task.js';

interface Wanted {
  id: number;
  file: string;
  offset: number;
  length: number;
  /** Of the second tree (lint --base). */
  base?: boolean;
}

/**
 * Answers one round of a pump's requests; false when it wanted nothing. What cannot be read is told to the pump: it
 * decides what that means. `answered`: called with each file.
 */
export async function serveRound(core: Core, pump: Pump, files: OpenFiles, task: Task, base?: OpenFiles,
  answered?: (file: string) => void): Promise<boolean> {
  const wanted: Wanted[] = JSON.parse(call(core, () => pump.want()));
  if (wanted.length === 0) return false;
  const memory = new CoreMemory(core);
  try {
    await inParallel(wanted, files.tree.parallel, async request => {
      await task.breathe();
      let bytes: Uint8Array;
      try {
        const source = await (request.base ? base! : files).get(request.file, task.signal);
        bytes = await source.read(request.offset, request.length, task.signal);
      } catch (error) {
        task.check();
        if (error instanceof TftfError && error.code === 'interrupted') throw error;
        call(core, () => pump.fail(request.id, readReason(error)));
        answered?.(request.file);
        return;
      }
      // No await between here and the call: the memory is shared.
      const data = memory.reserve(bytes.length);
      core.HEAPU8.set(bytes, data);
      call(core, () => pump.supply(request.id, data, bytes.length));
      answered?.(request.file);
    });
  } finally {
    memory.close();
  }
  return true;
}

/** Answers a pump until it wants nothing more. */
export async function serve(core: Core, pump: Pump, files: OpenFiles, task: Task, base?: OpenFiles,
  answered?: (file: string) => void): Promise<void> {
  while (await serveRound(core, pump, files, task, base, answered));
}
