import { argument, call, type Core, type CoreModel } from './core.js';
import type { OpenFiles } from './files.js';
import { inParallel } from './parallel.js';
import { serveRound } from './serving.js';
import type { SourceEntry, SourceTree } from './source.js';
import type { Task } from './task.js';

export interface ReadOptions {
  /** As a model that is to be converted; else whatever is there. */
  strict: boolean;
  maxHeader?: number | undefined;
}

async function listing(tree: SourceTree, signal?: AbortSignal): Promise<SourceEntry[]> {
  if (tree.main === undefined) return tree.list(signal);
  const main = await tree.find(tree.main, signal);
  return main === undefined ? [] : [main];
}

/** Reads the headers of a tree. */
export async function readModel(core: Core, files: OpenFiles, options: ReadOptions, task: Task): Promise<CoreModel> {
  const tree = files.tree;
  const listed = await listing(tree, task.signal);
  const reader = call(core, () => core.openModel(argument({
    given: tree.given,
    main: tree.main ?? null,
    index: tree.main?.endsWith('.json') ?? false,
    files: listed,
    strict: options.strict,
    maxHeader: options.maxHeader ?? null,
  })));
  const known = new Set<string>();
  const done = new Set<string>();
  const count = (names: Iterable<string>) => {
    for (const name of names) if (name.endsWith('.safetensors')) known.add(name);
  };
  count(listed.map(entry => entry.path));
  try {
    while (!call(core, () => reader.done())) {
      task.check();
      const names: string[] = JSON.parse(call(core, () => reader.wantFiles()));
      count(names);
      await inParallel(names, tree.parallel, async name => {
        const entry = await tree.find(name, task.signal);
        call(core, () => reader.addFile(name, entry === undefined ? '' : JSON.stringify({ ...entry, path: name })));
      });
      await serveRound(core, reader, files, task, undefined, file => {
        if (file.endsWith('.safetensors')) done.add(file);
        task.report('headers', done.size, Math.max(known.size, done.size), file);
      });
    }
    return call(core, () => reader.take());
  } finally {
    reader.delete();
  }
}
