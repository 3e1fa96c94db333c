// `adapter convert` as an operation of the page: the core has it as a command of its own, which reads an adapter and no model.
import { planAdapter, TftfError, type Operation, type OperationInfo, type OptionInfo, type SourceTree, type TaskOptions, type TransformPlan } from 'tftf';

import { adapterConversion } from '../adapter_step';

const option = (name: string, kind: OptionInfo['kind'], help: string, more: Partial<OptionInfo> = {}): OptionInfo => ({
  name, kind, help, default: null, choices: null, unit: null, required: false, repeatable: false, ...more,
});

/** As a row of the core's table. */
export const adapterConversionInfo: OperationInfo = {
  id: adapterConversion,
  title: 'Convert to another family',
  summary: 'Brings the adapter into the names, the layout and the scale of another family',
  options: [
    option('to', 'choice', 'Family to convert to', { choices: ['peft', 'kohya', 'diffusers', 'comfy', 'mlx'], required: true }),
    option('base', 'path', 'Base model: its names say where the dots of an underscored name are; a PEFT adapter is fitted to its names and its form of experts'),
    option('base-family', 'text', 'Family of the base model where names do not decide: sd1, sd2, sdxl, sd3, flux.1'),
    option('scale', 'number', 'Factor on B·A of an adapter that does not say it'),
    option('allow-partial', 'flag', 'Leave out what has no place in the target instead of refusing'),
  ],
  layouts: null,
  writes: 'the adapter with its alphas, ranks and scales as that family has them',
  applicable: true,
  reason: null,
};

/** Plans it. `base`: the model that was chosen, where one was. */
export async function planAdapterConversion(tree: SourceTree, base: SourceTree | undefined, operation: Operation, singleName: string | undefined,
  task: TaskOptions): Promise<TransformPlan> {
  const output = singleName ?? 'the chosen place';
  const words = ['adapter', 'convert', '-i', tree.given, '-o', output];
  for (const { name, values } of operation.options ?? []) words.push(`--${name}`, ...values);
  if (base !== undefined) words.push('--base', base.given);
  return planAdapter(tree, base, { words, output, dryRun: false, ...(singleName !== undefined && { singleName }) }, task);
}

/** The one operation of a plan that converts an adapter; undefined for any other plan. */
export function conversionIn<T extends { id: string }>(operations: T[]): T | undefined {
  const found = operations.find(({ id }) => id === adapterConversion);
  if (found !== undefined && operations.length > 1) throw new TftfError('usage', 'An adapter is converted by itself: take the other operations away.');
  return found;
}
