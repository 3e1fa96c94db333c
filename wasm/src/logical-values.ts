import { call, type CoreMemory } from './core.js';
import { TftfError } from './error.js';
import { bytesOf, EXTENT_NUMBERS, extentAt, ExtentReader, type Extent } from './extents.js';
import { quoteName } from './names.js';
import type { PlannedTransform } from './planning.js';
import { planTransform } from './planning.js';
import type { TaskOptions } from './progress.js';
import type { SourceTree } from './source.js';
import { Task } from './task.js';
import type { LogicalTensor } from './tensor.js';
import { TensorValues } from './tensor-values.js';

/** Steps of a plan that make one tensor, and where in the output it would lie. */
interface TensorSteps {
  first: number;
  count: number;
  offset: number;
  dtype: string;
  shape: number[];
}

/** Literal text as a glob. */
const globOf = (name: string): string => name.replace(/[*?[]/g, '[$&]');

/** A tensor's values as a conversion would write them: the plan's own steps, whose output is looked at instead. */
class LogicalValues extends TensorValues implements LogicalTensor {
  readonly logical = true;
  private readonly reader: ExtentReader;

  constructor(private readonly plan: PlannedTransform, name: string, private readonly steps: TensorSteps, task: Task) {
    super(plan.core, { name, dtype: steps.dtype, shape: steps.shape, bits: 32 });
    const paths = plan.summary().inputs.map(input => input.path);
    this.reader = new ExtentReader(plan.core, plan.files, paths, task);
    call(plan.core, () => plan.transformation.beginPhase(0));
  }

  private extents(step: number): { in: Extent[]; out: Extent } {
    const start = call(this.core, () => this.plan.transformation.io(step)) / 8;
    const numbers = this.core.HEAPF64;
    const count = numbers[start]!;
    const at = (i: number) => extentAt(numbers, start + 4 + EXTENT_NUMBERS * i);
    return { in: Array.from({ length: count }, (_, i) => at(i)), out: at(count) };
  }

  /** The step whose output holds this byte of the tensor. */
  private stepAt(byte: number): number {
    let low = 0;
    let high = this.steps.count - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.extents(this.steps.first + middle).out.offset - this.steps.offset <= byte) low = middle;
      else high = middle - 1;
    }
    return this.steps.first + low;
  }

  protected async load(first: number, count: number, memory: CoreMemory, task: Task): Promise<number> {
    const begin = first * 4;
    const end = begin + count * 4;
    const length = end - begin;
    // Behind what is asked for, one step's output; behind that, its pointers.
    let step = this.stepAt(begin);
    const { core, plan } = this;
    for (let done = 0; done < length; ++step) {
      await task.breathe();
      const io = this.extents(step);
      const pointers = await this.reader.read(io.in, plan.files.tree.block);
      const outBytes = Math.ceil(bytesOf(io.out) / 64) * 64;
      const base = memory.reserve(Math.ceil(length / 64) * 64 + (2 << 20) + 4 * (io.in.length + 1));
      if (outBytes > 2 << 20) throw new TftfError('internal', 'A step is larger than it may be.');
      const out = base + Math.ceil(length / 64) * 64;
      const table = out + (2 << 20);
      pointers.forEach((pointer, i) => { core.HEAPU32[table / 4 + i] = pointer; });
      core.HEAPU32[table / 4 + pointers.length] = out;
      call(core, () => plan.transformation.run(step, table));
      const at = io.out.offset - this.steps.offset;
      const from = Math.max(begin, at);
      const to = Math.min(end, at + bytesOf(io.out));
      core.HEAPU8.copyWithin(base + from - begin, out + from - at, out + to - at);
      done = to - begin;
    }
    return memory.reserve(length);
  }

  async close(): Promise<void> {
    this.reader.close();
    await this.plan.close();
  }
}

/** Plans the dequantisation of one tensor with its companions, and gives its values. */
export async function openLogical(tree: SourceTree, name: string, companions: string[], maxHeader: number | undefined,
  options: TaskOptions = {}): Promise<LogicalTensor> {
  const include = [name, ...companions].map(one => ({ name: 'include', values: [globOf(one)] }));
  const plan = await planTransform(tree, {
    command: 'view', output: '', maxHeader, operations: [
      { id: 'filter', options: include },
      { id: 'dequant-fp8', options: [{ name: 'dtype', values: ['float32'] }] },
    ],
  }, options);
  try {
    const text = call(plan.core, () => plan.transformation.tensorSteps(name));
    const steps: TensorSteps | undefined = text === '' ? undefined : JSON.parse(text);
    if (steps === undefined || steps.dtype !== 'F32') {
      throw new TftfError('refused-unsupported', `Nothing here dequantises ${quoteName(name)}.`, { tensor: name });
    }
    return new LogicalValues(plan, name, steps, new Task(options));
  } catch (error) {
    await plan.close();
    throw error;
  }
}
