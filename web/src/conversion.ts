// A conversion of one input: the chain of operations, its plan, and the run.
import { signal, type Signal } from '@preact/signals';
import type { OperationInfo, OptionInfo, Progress } from 'tftf';
import type { Failure, Origin, PageOperation, PagePlanRequest, PlanView, RunView, Target } from './engine/messages';
import { announcement, closing, currentId, engine, failureOf, inputs, openOrigin, type Input } from './inputs';
import { go } from './route';
import { canPickFiles, mayWrite, pickFile, pickFolder } from './saving';

// Options by name; one entry per time it is given. A flag that is set is [[]]; `adapter`, `from` and `base` are numbers of inputs.
export interface Step {
  id: string;
  values: Record<string, string[][]>;
}

export type PlanState = { state: 'none' } | { state: 'planning' } | { state: 'ready'; view: PlanView } | { state: 'refused'; failure: Failure };

export type RunState =
  | { state: 'none' }
  | { state: 'running'; progress: Progress | null; began: number; rate: number; paused: boolean }
  | { state: 'failed'; failure: Failure }
  | { state: 'done'; view: RunView; seconds: number; result: Input | null; stored: number | null; files: { path: string; file: File }[] };

export class Conversion {
  readonly steps: Signal<Step[]> = signal([]);
  readonly single: Signal<boolean>;
  readonly plan: Signal<PlanState> = signal({ state: 'none' });
  readonly run: Signal<RunState> = signal({ state: 'none' });
  private planning: AbortController | null = null;
  private running: AbortController | null = null;
  private call = 0;
  private timer = 0;
  private saving = false;

  constructor(readonly input: Input) {
    this.single = signal(input.summary.files.length === 1 && input.summary.index === null);
  }

  choose(info: OperationInfo): void {
    this.begin([{ id: info.id, values: likelyValues(info) }]);
  }
  begin(steps: Step[]): void {
    this.steps.value = steps;
    this.run.value = { state: 'none' };
    this.replan(0);
  }
  add(info: OperationInfo): void {
    this.steps.value = [...this.steps.value, { id: info.id, values: likelyValues(info) }];
    this.replan(0);
  }
  remove(at: number): void {
    this.steps.value = this.steps.value.filter((_, i) => i !== at);
    this.replan(0);
  }
  set(at: number, option: string, given: string[][]): void {
    this.steps.value = this.steps.value.map((step, i) => (i === at ? { ...step, values: { ...step.values, [option]: given } } : step));
    this.replan(200);
  }
  setSingle(single: boolean): void {
    this.single.value = single;
    this.replan(0);
  }

  // Required options that have no value yet.
  missing(): OptionInfo[] {
    const table = this.input.operations.value ?? [];
    return this.steps.value.flatMap((step) => (table.find((info) => info.id === step.id)?.options ?? []).filter((option) => option.required && !given(step, option.name)));
  }

  replan(delay: number): void {
    clearTimeout(this.timer);
    this.planning?.abort();
    // A plan that is already on its way back is out of date, too.
    this.planning = null;
    this.release();
    if (this.steps.value.length === 0 || this.missing().length > 0) {
      this.plan.value = { state: 'none' };
      return;
    }
    this.plan.value = { state: 'planning' };
    this.timer = setTimeout(() => void this.makePlan(), delay);
  }

  cancel(): void {
    this.running?.abort();
  }
  pause(on: boolean): void {
    const run = this.run.value;
    if (run.state !== 'running') return;
    engine.pause(this.call, on);
    this.run.value = { ...run, paused: on };
  }

  // From a click: the pickers ask for one. A second click asks for nothing more.
  async save(): Promise<void> {
    const plan = this.plan.value;
    if (plan.state !== 'ready' || this.saving) return;
    this.saving = true;
    try {
      const target = await this.target(plan.view);
      // Whatever was changed while the question was out: what was agreed to is not what would be written.
      if (target && this.plan.value === plan) await this.write(plan.view, target);
    } catch (error) {
      this.fail(error);
    } finally {
      this.saving = false;
    }
  }

  // The input is closed: nothing is planned any more.
  letGo(): void {
    this.steps.value = [];
    this.replan(0);
  }

  async removeStored(): Promise<void> {
    const run = this.run.value;
    if (run.state !== 'done' || run.stored === null) return;
    await engine.removeStored(run.stored);
    this.run.value = { ...run, stored: null, files: [] };
  }

  private release(): void {
    if (this.plan.value.state === 'ready') void engine.freePlan(this.plan.value.view.plan);
  }

  private request(): PagePlanRequest {
    const operations = this.steps.value.map(({ id, values: { adapter, from, base, ...values } }): PageOperation => ({
      id,
      options: Object.entries(values).flatMap(([name, list]) => list.filter(isGiven).map((words) => ({ name, values: words }))),
      ...(adapter && { adapter: Number(adapter[0]![0]) }),
      ...(from && { from: Number(from[0]![0]) }),
      ...(base?.[0] && { base: Number(base[0][0]) }),
    }));
    return { ...(operations.length > 1 && { command: 'run' }), operations, output: 'the chosen place', ...(this.single.value && { singleName: this.suggestedName() }) };
  }

  suggestedName(): string {
    const stem = this.input.label.replace(/^.*\//, '').replace(/\.safetensors$/, '').replace(/[^\w.-]+/g, '_').slice(0, 120) || 'model';
    return `${stem}-${this.steps.value.map((step) => step.id).join('-')}.safetensors`;
  }

  private async makePlan(): Promise<void> {
    const abort = new AbortController();
    this.planning = abort;
    try {
      const view = await engine.plan(this.input.id, this.request(), { signal: abort.signal });
      if (this.planning === abort) this.plan.value = { state: 'ready', view };
      else void engine.freePlan(view.plan);
    } catch (error) {
      const failure = failureOf(error);
      if (this.planning === abort && failure.code !== 'interrupted') this.plan.value = { state: 'refused', failure };
    }
  }

  // What operations take along: adapters, and models that tensors are taken from.
  private others(): Input[] {
    const named = (step: Step, id: number) => [step.values.adapter, step.values.from, step.values.base].some((value) => value?.[0]?.[0] === String(id));
    return inputs.value.filter(({ id }) => this.steps.value.some((step) => named(step, id)));
  }

  private async target(view: PlanView): Promise<Target | null> {
    if (!canPickFiles()) return { kind: 'download' };
    const handle = view.singleName === null ? await pickFolder() : await pickFile(this.suggestedName());
    if (!handle) return null;
    for (const input of [this.input, ...this.others()]) {
      if (!(await holds(input.origin, handle))) continue;
      const what = input === this.input ? 'model that is being read' : isAdapter(input) ? 'adapter that is being merged' : 'model that tensors are taken from';
      this.run.value = { state: 'failed', failure: { code: 'refused-output', message: `That is the ${what}.`, file: handle.name, tensor: null, expected: null, found: null } };
      return null;
    }
    if (!(await mayWrite(handle))) {
      this.run.value = {
        state: 'failed',
        failure: { code: 'io-write', message: 'The browser was not allowed to write there.', file: handle.name, tensor: null, expected: null, found: null },
      };
      return null;
    }
    return handle.kind === 'file' ? { kind: 'file', handle } : { kind: 'folder', handle };
  }

  private async write(view: PlanView, target: Target): Promise<void> {
    const abort = new AbortController();
    this.running = abort;
    const began = performance.now();
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener('beforeunload', warn);
    this.run.value = { state: 'running', progress: null, began, rate: 0, paused: false };
    let last = { time: began, done: 0 };
    try {
      const done = await engine.run(view.plan, target, {
        signal: abort.signal,
        onCall: (call) => {
          this.call = call;
        },
        onProgress: (progress) => {
          const run = this.run.value;
          if (run.state !== 'running') return;
          const now = performance.now();
          let { rate } = run;
          if (progress.stage === 'writing' && now - last.time > 250) {
            const momentary = Math.max(0, progress.done - last.done) / ((now - last.time) / 1000);
            rate = rate === 0 ? momentary : 0.8 * rate + 0.2 * momentary;
            last = { time: now, done: progress.done };
          }
          this.run.value = { ...run, progress, rate };
        },
      });
      await this.finish(done, target, view, (performance.now() - began) / 1000);
    } catch (error) {
      this.fail(error);
    } finally {
      removeEventListener('beforeunload', warn);
      if (this.running === abort) this.running = null;
    }
  }

  private async finish(view: RunView, target: Target, plan: PlanView, seconds: number): Promise<void> {
    const stored = target.kind === 'download' ? plan.plan : null;
    const files = stored === null ? [] : await engine.storedFiles(stored);
    const label = plan.singleName ?? (target.kind === 'download' ? 'result' : target.handle.name);
    const origin: Origin = target.kind === 'download' ? { kind: 'files', label, files } : { kind: 'handle', label: target.handle.name, handle: target.handle };
    this.plan.value = { state: 'none' };
    this.run.value = { state: 'done', view, seconds, result: null, stored, files };
    announcement.value = 'The result is written.';
    const result = await openOrigin(origin, { show: false });
    const run = this.run.value;
    if (run.state === 'done') this.run.value = { ...run, result };
  }

  private fail(error: unknown): void {
    const failure = failureOf(error);
    announcement.value = failure.message;
    this.run.value = { state: 'failed', failure };
    this.replan(0);
  }
}

// Whether what was picked is that input, or the weights in its folder.
async function holds(origin: Origin, picked: FileSystemHandle): Promise<boolean> {
  if (origin.kind !== 'handle') return false;
  if (await origin.handle.isSameEntry(picked)) return true;
  const path = origin.handle.kind === 'directory' ? await (origin.handle as FileSystemDirectoryHandle).resolve(picked) : null;
  return path?.length === 1 && path[0] === 'adapter_model.safetensors';
}

// A line of a form that says something. The replacement of a rule may well be empty, and a flag has no words at all.
const isGiven = (words: string[]): boolean => words[0] !== '';

const given = (step: Step, name: string): boolean =>
  (step.values[name] ?? []).some(isGiven) && ((name !== 'adapter' && name !== 'from') || inputs.value.some((input) => String(input.id) === step.values[name]![0]![0]));

export const isAdapter = (input: Input): boolean => input.summary.kind === 'adapter';
export const openAdapters = (): Input[] => inputs.value.filter(isAdapter);
export const openModels = (): Input[] => inputs.value.filter((input) => !isAdapter(input));

// The adapter that is open, when only one is.
function likelyValues(info: OperationInfo): Step['values'] {
  const adapters = openAdapters();
  return info.options.some((option) => option.name === 'adapter' && option.required) && adapters.length === 1 ? { adapter: [[String(adapters[0]!.id)]] } : {};
}

// Shows the merge of an adapter into a base; an FP8 base is dequantised in the same pass.
export async function offerMerge(base: Input, adapter: Input): Promise<void> {
  const table = await engine.operations(base.id);
  const possible = (id: string) => table.some((info) => info.id === id && info.applicable !== false);
  if (!possible('merge-lora')) return;
  base.operations.value = table;
  const first: Step[] = possible('dequant-fp8') ? [{ id: 'dequant-fp8', values: {} }] : [];
  conversionOf(base).begin([...first, { id: 'merge-lora', values: { adapter: [[String(adapter.id)]] } }]);
  currentId.value = base.id;
  go('convert', 'merge-lora');
}

const conversions = new WeakMap<Input, Conversion>();
closing.add((input) => conversions.get(input)?.letGo());

export function conversionOf(input: Input): Conversion {
  let found = conversions.get(input);
  if (!found) {
    found = new Conversion(input);
    conversions.set(input, found);
  }
  return found;
}
