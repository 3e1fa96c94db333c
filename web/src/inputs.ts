// What is open, and what is being opened.
import { computed, signal, type Signal } from '@preact/signals';
import type { LintDocument, OperationInfo, Progress, RuleInfo } from 'tftf';
import { Engine, EngineError } from './engine/engine';
import type { Failure, ModuleTree, Opened, Origin, SideText, Summary, TensorColumns } from './engine/messages';
import { go } from './route';

export const engine = new Engine();

export type Check =
  | { state: 'running'; progress: Progress | null }
  | { state: 'done'; document: LintDocument; account: string; rules: Map<string, RuleInfo>; data: boolean; base: number | null }
  | { state: 'failed'; failure: Failure };

export interface Input {
  id: number;
  label: string;
  origin: Origin;
  summary: Summary;
  tensors: TensorColumns;
  tree: ModuleTree;
  sideFiles: SideText[];
  check: Signal<Check>;
  operations: Signal<OperationInfo[] | null>;
}

export interface Opening {
  label: string;
  progress: Progress | null;
  address: boolean;
  abort: AbortController;
}

export const inputs = signal<Input[]>([]);
export const currentId = signal(0);
export const current = computed(() => inputs.value.find((input) => input.id === currentId.value) ?? null);
export const opening = signal<Opening | null>(null);
export const openFailures = signal<{ label: string; failure: Failure }[]>([]);
// What assistive technology is told.
export const announcement = signal('');

let ids = 0;

export const failureOf = (error: unknown): Failure =>
  error instanceof EngineError
    ? error.failure
    : { code: 'internal', message: error instanceof Error ? error.message : String(error), file: null, tensor: null, expected: null, found: null };

export function addFailure(label: string, failure: Failure): void {
  openFailures.value = [...openFailures.value, { label, failure }];
  announcement.value = failure.message;
}

// One after the other: nothing that somebody wanted to see is lost to what is dropped next.
let turns: Promise<unknown> = Promise.resolve();

// `show`: it becomes the current one. Null when it could not be opened; openFailures says why.
export function openOrigin(origin: Origin, { show = true } = {}): Promise<Input | null> {
  const opened = turns.then(() => openNow(origin, show));
  turns = opened.catch(() => undefined);
  return opened;
}

async function openNow(origin: Origin, show: boolean): Promise<Input | null> {
  const abort = new AbortController();
  const id = ++ids;
  const mine: Opening = { label: origin.label, progress: null, address: origin.kind === 'url', abort };
  opening.value = mine;
  try {
    const opened = await engine.open(id, origin, {
      signal: abort.signal,
      onProgress: (progress) => {
        if (opening.value?.abort === abort) opening.value = { ...mine, progress };
      },
    });
    return add(id, origin, opened, show);
  } catch (error) {
    const failure = failureOf(error);
    if (failure.code !== 'interrupted') addFailure(origin.label, failure);
    return null;
  } finally {
    if (opening.value?.abort === abort) opening.value = null;
  }
}

function add(id: number, origin: Origin, opened: Opened, show: boolean): Input {
  const input: Input = {
    id,
    label: origin.label,
    origin,
    ...opened,
    check: signal<Check>({ state: 'running', progress: null }),
    operations: signal<OperationInfo[] | null>(null),
  };
  const first = inputs.value.length === 0;
  inputs.value = [...inputs.value, input];
  if (show || first) {
    currentId.value = id;
    announcement.value = `${origin.label} is open.`;
    if (!first) go('overview');
  }
  void runCheck(input, false);
  void engine.operations(id).then(
    (operations) => {
      input.operations.value = operations;
    },
    () => {
      input.operations.value = [];
    },
  );
  return input;
}

const checks = new Map<number, AbortController>();

export const cancelCheck = (input: Input): void => checks.get(input.id)?.abort();

// `data`: the tensors' values too; `base`: the model that an adapter belongs to.
export async function runCheck(input: Input, data: boolean, base: number | null = null): Promise<void> {
  const before = input.check.value;
  const abort = new AbortController();
  checks.get(input.id)?.abort();
  checks.set(input.id, abort);
  input.check.value = { state: 'running', progress: null };
  try {
    const result = await engine.lint(input.id, data, base, {
      signal: abort.signal,
      onProgress: (progress) => {
        input.check.value = { state: 'running', progress };
      },
    });
    input.check.value = { state: 'done', document: result.document, account: result.account, rules: new Map(result.rules.map((rule) => [rule.id, rule])), data, base };
    announcement.value = result.account;
  } catch (error) {
    const failure = failureOf(error);
    input.check.value = failure.code === 'interrupted' && before.state === 'done' ? before : { state: 'failed', failure };
  } finally {
    if (checks.get(input.id) === abort) checks.delete(input.id);
  }
}

// What else holds on to an input.
export const closing = new Set<(input: Input) => void>();

export function closeInput(input: Input): void {
  for (const letGo of closing) letGo(input);
  checks.get(input.id)?.abort();
  inputs.value = inputs.value.filter((other) => other !== input);
  if (currentId.value === input.id) currentId.value = inputs.value[inputs.value.length - 1]?.id ?? 0;
  void engine.close(input.id);
  if (inputs.value.length === 0) go('overview');
}

export const tensorIndex = (input: Input, name: string): number => input.tensors.names.indexOf(name);
