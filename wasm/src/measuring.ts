import { argument, call, free, loadCore, type Core, type CoreModel, type CoreValueWork } from './core.js';
import type { ComparisonDocument, StatisticsDocument } from './documents.js';
import { OpenFiles } from './files.js';
import { readModel } from './model.js';
import type { TaskOptions } from './progress.js';
import type { SourceTree } from './source.js';
import { Task } from './task.js';
import { runValueWork } from './value-work.js';

/** Which tensors: globs over whole names, or exact names. */
export interface Selection extends TaskOptions {
  include?: string[];
  exclude?: string[];
  names?: string[];
  maxHeader?: number;
}
export interface StatisticsOptions extends Selection {
  /** Quantised weights as the weights that they stand for. */
  logical?: boolean;
  /** Of the histograms; none when absent. */
  bins?: number;
}
export interface ComparisonOptions extends Selection {
  /** Compare the values, not the headers alone. */
  values?: boolean;
  /** Greatest relative L2 distance of tensors that still count as close. */
  tolerance?: number;
  /** Dtypes, layouts, metadata and configuration count with values too. */
  strict?: boolean;
}
export interface TensorHeatMapOptions extends TaskOptions {
  name: string;
  logical?: boolean;
  height: number;
  width: number;
  rowBegin?: number;
  rowEnd?: number;
  columnBegin?: number;
  columnEnd?: number;
  maxHeader?: number;
}

/** A finished pass over values. */
export interface ValueReport<Document> {
  /** The core's text, byte for byte what the native program prints. */
  readonly json: string;
  document(): Document;
  /** For people. `width`: no row of the table is longer, 0: nothing is cut. `ascii`: nothing but ASCII. */
  text(width?: number, ascii?: boolean): string;
  /** Tensors that were selected. */
  readonly selected: number;
  /** Of a comparison: what is different, empty when nothing counts as it. */
  readonly difference: string;
  close(): Promise<void>;
}

/** Reads models strictly, as those to be converted are, and runs a pass over them. */
async function measured<Document>(trees: SourceTree[], options: TaskOptions & { maxHeader?: number },
  open: (core: Core, models: CoreModel[]) => CoreValueWork | null): Promise<ValueReport<Document>> {
  const core = await loadCore();
  const task = new Task(options);
  const files = trees.map(tree => new OpenFiles(tree));
  const models: CoreModel[] = [];
  let work: CoreValueWork | undefined;
  const close = async () => {
    free(work);
    for (const model of models) free(model);
    for (const one of files) await one.close();
  };
  try {
    for (const one of files) models.push(await readModel(core, one, { strict: true, maxHeader: options.maxHeader }, task));
    work = call(core, () => open(core, models));
    await runValueWork(core, work, files, task);
    const finished = work;
    const json = call(core, () => finished.json());
    return {
      json,
      document: () => JSON.parse(json),
      text: (width = 0, ascii = false) => call(core, () => finished.text(width, ascii)),
      selected: call(core, () => finished.selected()),
      difference: call(core, () => finished.difference()),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function plain<T extends TaskOptions>(options: T): string {
  const { signal, onProgress, ...rest } = options;
  return argument(rest);
}

/** What the values of tensors are: `tftf stats`. */
export function statistics(tree: SourceTree, options: StatisticsOptions = {}): Promise<ValueReport<StatisticsDocument>> {
  return measured([tree], options, (core, [model]) => core.openStatistics(model!, plain(options)));
}

/** Means of blocks of one tensor: `tftf stats --heat-map`. */
export function tensorHeatMap(tree: SourceTree, options: TensorHeatMapOptions): Promise<ValueReport<Record<string, unknown>>> {
  return measured([tree], options, (core, [model]) => core.openHeatMap(model!, plain(options)));
}

/** What is different between two models: `tftf diff`. */
export function compare(left: SourceTree, right: SourceTree, options: ComparisonOptions = {}): Promise<ValueReport<ComparisonDocument>> {
  return measured([left, right], options, (core, [one, other]) => core.openComparison(one!, other!, plain(options)));
}
