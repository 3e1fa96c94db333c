import { argument, call, errorOf, free, loadCore, type Core, type CoreModel } from './core.js';
import type { Checkpoint, InfoTextOptions, OpenOptions, SideFile, TensorTable } from './checkpoint.js';
import type { InfoDocument, OperationInfo } from './documents.js';
import { TftfError } from './error.js';
import { OpenFiles } from './files.js';
import { readModel } from './model.js';
import { planTransform } from './planning.js';
import type { TaskOptions } from './progress.js';
import { serve } from './serving.js';
import type { SourceTree } from './source.js';
import { Task } from './task.js';
import type { LogicalTensor, StoredTensor } from './tensor.js';
import { openLogical, StoredValues, type TensorPlace } from './tensor-values.js';
import type { PlanRequest, TransformPlan } from './transform.js';

class OpenCheckpoint implements Checkpoint {
  constructor(private readonly core: Core, private readonly model: CoreModel, private readonly files: OpenFiles,
    private readonly maxHeader: number | undefined) {}

  get tree(): SourceTree { return this.files.tree; }

  infoJson(filter = ''): string { return call(this.core, () => this.model.info(filter)); }
  info(filter = ''): InfoDocument { return JSON.parse(this.infoJson(filter)); }
  table(): TensorTable { return JSON.parse(call(this.core, () => this.model.table())); }
  infoText(options: InfoTextOptions = {}): string {
    return call(this.core, () => this.model.infoText(argument(options)));
  }
  adapterInfo(text = false): string { return call(this.core, () => this.model.adapterInfo(text)); }
  noAdapter(): TftfError | null {
    const text = call(this.core, () => this.model.noAdapter());
    return text === '' ? null : errorOf(text);
  }
  matches(filter: string): boolean { return call(this.core, () => this.model.matches(filter)); }
  broken(): TftfError | null {
    const text = call(this.core, () => this.model.broken());
    return text === '' ? null : errorOf(text);
  }
  sideFiles(): SideFile[] { return JSON.parse(call(this.core, () => this.model.sideFiles())); }
  operations(): OperationInfo[] { return JSON.parse(call(this.core, () => this.model.operations())); }

  private place(index: number): TensorPlace {
    if (!Number.isInteger(index) || index < 0 || index > 0xffff_ffff) throw new TftfError('usage', 'There is no tensor of that number.');
    return { row: index, ...JSON.parse(call(this.core, () => this.model.tensor(index))) };
  }
  tensor(index: number): StoredTensor {
    return new StoredValues(this.core, this.model, this.files, this.place(index));
  }
  async logicalTensor(index: number, options?: TaskOptions): Promise<LogicalTensor> {
    return openLogical(this.core, this.model, this.files, this.place(index), options);
  }
  plan(request: PlanRequest, options?: TaskOptions): Promise<TransformPlan> {
    return planTransform(this.tree, { ...request, maxHeader: this.maxHeader }, options);
  }

  async close(): Promise<void> {
    free(this.model);
    await this.files.close();
  }
}

/** Opens a model to look at it: rejects when there is nothing to look at; broken files open and say so in info(). */
export async function openCheckpoint(tree: SourceTree, options: OpenOptions = {}): Promise<Checkpoint> {
  const core = await loadCore();
  const task = new Task(options);
  const files = new OpenFiles(tree);
  let model: CoreModel | undefined;
  try {
    model = await readModel(core, files, { strict: false, maxHeader: options.maxHeader }, task);
    const refusal = call(core, () => model!.refusal());
    if (refusal !== '') throw errorOf(refusal);
    await serve(core, model, files, task);
    return new OpenCheckpoint(core, model, files, options.maxHeader);
  } catch (error) {
    model?.delete();
    await files.close();
    throw error;
  }
}

/** The table of operations without a checkpoint. */
export async function operations(): Promise<OperationInfo[]> {
  const core = await loadCore();
  return JSON.parse(call(core, () => core.operations()));
}
