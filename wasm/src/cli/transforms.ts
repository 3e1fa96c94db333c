import * as path from 'node:path';
import { statSync } from 'node:fs';
import type { AdapterSource } from '../adapter.js';
import { call, loadCore } from '../core.js';
import type { OperationInfo } from '../documents.js';
import { TftfError } from '../error.js';
import { operations } from '../opening.js';
import { planTransform, type PlannedTransform } from '../planning.js';
import { examine, run } from '../running.js';
import { checkTarget, pathSink } from '../sinks/node-sink.js';
import type { SourceTree } from '../source.js';
import type { Operation } from '../transform.js';
import { adapterOfRanks, checkApart, configOf, DISTRIBUTED, distributedAdapter, RANKS, withAdapters } from './adapters.js';
import { flag, usage, value, type Arguments, type OptionRule } from './arguments.js';
import { treeOf } from './inspection.js';
import { COMMON, size, type Session } from './session.js';

const INPUT: OptionRule = { name: 'input', short: 'i', values: 1, shows: 'MODEL', help: 'Model: a file, a folder, an index or an address' };

export const WRITE: OptionRule[] = [
  { name: 'output', short: 'o', values: 1, shows: 'OUT', help: 'Folder for shards, or one file when it ends in .safetensors' },
  { name: 'dry-run', values: 0, shows: '', help: 'Print the plan and the account, write nothing' },
  { name: 'max-shard-size', values: 1, shows: 'SIZE', help: 'Start a new shard before this many bytes of tensors (20GiB)' },
  { name: 'single', values: 0, shows: '', help: 'Write one file, whatever its name' },
  { name: 'sharded', values: 0, shows: '', help: 'Write a folder of shards, whatever its name' },
  { name: 'align', values: 0, shows: '', help: 'Order the tensors of a file by falling element size, so that all lie aligned' },
  { name: 'overwrite', values: 0, shows: '', help: 'Replace files of the same names' },
  // Nothing is continued here: the option has nothing to forbid.
  { name: 'no-resume', values: 0 },
  { name: 'tile-size', values: 1 },
];

// Taken for the original's sake, without effect.
const IGNORED: Record<string, OptionRule[]> = {
  'dequant-fp8': [{ name: 'device', values: 1 }],
  'merge-lora': [{ name: 'device', values: 1 }],
};

interface CommandOperation {
  id: string;
  /** Only meant when one of its options is given. */
  optional?: boolean;
  /** Options that the command calls otherwise; null: it has none of that name. */
  names?: Record<string, { name: string; short?: string } | null>;
}

export interface Command {
  name: string;
  summary: string;
  /** Operations whose options it takes, in the order in which they are run. */
  operations: CommandOperation[];
  /** How it calls its model. */
  input: OptionRule;
  /** What else it takes, to find the adapter that it merges. */
  own?: OptionRule[];
  adapter?: (args: Arguments, session: Session) => Promise<AdapterSource>;
}

const BASE: OptionRule = { name: 'base', short: 'b', values: 1, shows: 'MODEL', help: INPUT.help! };
const merging = (adapter: { name: string; short?: string } | null): CommandOperation[] => [
  { id: 'rename', optional: true, names: { rule: { name: 'rename' } } },
  { id: 'merge-lora', names: { adapter } },
  { id: 'cast', optional: true },
];

/** The commands that are made from the table of operations. */
export const COMMANDS: Command[] = [
  { name: 'passthrough', summary: 'Copy a model: filtered, cast, packed anew, or just as it is', input: INPUT,
    operations: [{ id: 'filter', optional: true }, { id: 'cast', optional: true }] },
  { name: 'dequant-fp8', summary: 'Turn FP8 weights with their scales into plain floats', input: INPUT,
    operations: [
      { id: 'dequant-fp8' },
      { id: 'merge-lora', optional: true, names: {
        adapter: { name: 'merge-lora' }, 'adapter-config': { name: 'lora-config' }, 'adapter-name': { name: 'lora-adapter-name' },
        scale: { name: 'lora-scale' }, device: null } },
    ] },
  { name: 'dequant', summary: 'Turn quantised weights into plain floats', input: INPUT, operations: [{ id: 'dequant' }] },
  { name: 'quantize', summary: 'Round float weights to a quantised layout', input: INPUT, operations: [{ id: 'quantize' }] },
  { name: 'repack', summary: 'Put quantised weights into another container, codes untouched', input: INPUT, operations: [{ id: 'repack' }] },
  { name: 'merge-lora', summary: 'Merge an adapter into a model', input: BASE, operations: merging({ name: 'adapter', short: 'a' }) },
  { name: 'merge-fsdp-lora', summary: 'Merge an adapter that each rank of a training run saved its part of', input: BASE,
    operations: merging(null), own: RANKS, adapter: adapterOfRanks },
  { name: 'merge-dcp-lora', summary: 'Merge an adapter of a distributed checkpoint (PyTorch DCP)', input: BASE,
    operations: merging(null), own: DISTRIBUTED, adapter: distributedAdapter },
];

interface NamedRule {
  option: string;
  rule: OptionRule;
}

function optionRules(info: OperationInfo, { names = {} }: Pick<CommandOperation, 'names'>): NamedRule[] {
  const shows = { flag: '', choice: '', integer: 'N', size: 'SIZE', glob: 'GLOB', rule: 'PATTERN REPLACEMENT', text: 'TEXT',
    number: 'NUMBER', path: 'PATH' };
  const own = info.options.map((option): OptionRule => ({
    name: option.name,
    values: option.kind === 'flag' ? 0 : option.kind === 'rule' ? 2 : 1,
    shows: option.choices?.join('|') ?? shows[option.kind],
    help: option.help + (option.default === null ? '' : ` (${option.default})`),
  }));
  return [...own, ...IGNORED[info.id] ?? []].flatMap(rule => {
    const called = names[rule.name];
    return called === null ? [] : [{ option: rule.name, rule: { ...rule, ...called } }];
  });
}

export async function commandRules(command: Command): Promise<OptionRule[]> {
  const table = await operations();
  const own = command.operations.flatMap(one => optionRules(table.find(info => info.id === one.id)!, one)).map(({ rule }) => rule);
  return [command.input, ...command.own ?? [], ...own, ...WRITE, ...COMMON];
}

/** Operations with what was given of their options, in the order given. */
async function chosenOperations(command: Command, args: Arguments): Promise<Operation[]> {
  const table = await operations();
  const chosen: Operation[] = [];
  for (const one of command.operations) {
    const info = table.find(({ id }) => id === one.id)!;
    const rules = optionRules(info, one);
    const options = rules.flatMap(({ option, rule }) =>
      (args.options.get(rule.name) ?? []).map(values => ({ name: option, values })));
    const spelt = (name: string) => `--${rules.find(({ option }) => option === name)!.rule.name}`;
    const missing = info.options.find(option => option.required && rules.some(rule => rule.option === option.name)
      && !options.some(({ name }) => name === option.name));
    if (one.optional && options.length === 0) continue;
    if (missing !== undefined) {
      throw usage(options.length > 0 ? `${spelt(options[0]!.name)} needs ${spelt(missing.name)}.` : `${spelt(missing.name)} is required.`);
    }
    chosen.push({ id: one.id, options });
  }
  return chosen;
}

function needed(args: Arguments, name: string): string {
  const text = value(args, name);
  if (text === undefined) throw usage(`--${name} is required.`);
  if (args.words.length > 0) throw usage(`An argument was not expected: ${args.words[0]}.`);
  return text;
}

function checkMemory(session: Session, plan: PlannedTransform): void {
  if (session.maxMemory === undefined || plan.memoryBytes <= session.maxMemory) return;
  throw new TftfError('refused-memory', `The plan needs ${plan.memoryBytes} bytes of memory, more than --max-memory allows.`,
    { expected: String(session.maxMemory), found: String(plan.memoryBytes) });
}

const MOST_WARNINGS = 20;

function warnAll(session: Session, warnings: string[]): void {
  const shown = session.verbose ? warnings : warnings.slice(0, MOST_WARNINGS);
  for (const warning of shown) session.warn(warning);
  if (shown.length < warnings.length) session.warn(`${warnings.length - shown.length} more like these; -v or --json tells them all.`);
}

function report(session: Session, plan: PlannedTransform, dryRun: boolean): void {
  const shown = !session.json && !session.quiet && process.stdout.isTTY;
  if (!shown) warnAll(session, plan.account().warnings);
  if (session.json) session.print(plan.accountJson());
  else if (!session.quiet || dryRun) session.print(plan.accountText(session.verbose));
}

async function transform(session: Session, command: string, from: OptionRule, chosen: Operation[], args: Arguments): Promise<number> {
  const input = needed(args, from.name);
  const output = needed(args, 'output');
  const dryRun = flag(args, 'dry-run');
  if (flag(args, 'single') && flag(args, 'sharded')) throw usage('--single excludes --sharded.');
  const single = flag(args, 'single') || (!flag(args, 'sharded') && output.endsWith('.safetensors'));
  const options = { single, overwrite: flag(args, 'overwrite') };
  const nowhere = dryRun && output === '/dev/null';
  const there = nowhere ? undefined : statSync(output, { throwIfNoEntry: false });
  const shard = value(args, 'max-shard-size');
  const tile = value(args, 'tile-size');
  const merging = await withAdapters(chosen, session);
  if (there !== undefined) checkApart(merging, output, there);
  const tree = await treeOf(input, session);
  if (there !== undefined && there.isDirectory() === single) checkTarget(output, options, output, [], tree);
  const request = {
    command, operations: merging, output, dryRun, align: flag(args, 'align'), maxHeader: session.maxHeader,
    // As in the original, a limit below zero is one tensor per shard, like 0.
    ...(shard === undefined ? {} : { maxShardSize: /^-\d+$/.test(shard) ? 0 : await size(shard) }),
    ...(single ? { singleName: path.basename(output) } : {}),
    ...(tile === undefined ? {} : { tileBytes: await size(tile) }),
  };
  const plan = await planTransform(tree, request, session.task);
  try {
    checkMemory(session, plan);
    if (dryRun) {
      const names = plan.outputs.map(file => file.name);
      if (!nowhere) checkTarget(output, options, single ? path.dirname(output) : output, names, tree);
      if (!session.json) session.print(`${plan.text(session.verbose)}memory ${plan.memoryBytes}\n\n`);
      report(session, plan, true);
      return 0;
    }
    await run(plan, pathSink(output, options), session.task);
    report(session, plan, false);
    return 0;
  } finally {
    await plan.close();
  }
}

export async function operationCommand(session: Session, command: Command, args: Arguments): Promise<number> {
  const chosen = await chosenOperations(command, args);
  if (command.adapter !== undefined) {
    const merge = chosen.find(({ id }) => id === 'merge-lora')!;
    const config = await configOf(merge, session);
    merge.adapter = { ...await command.adapter(args, session), ...(config && { config }) };
  }
  return transform(session, command.name, command.input, chosen, args);
}

/** `run`: its own options anywhere, everything else is the chain; "--" ends its own. */
export async function runRules(): Promise<OptionRule[]> { return [INPUT, ...WRITE, ...COMMON]; }

export async function splitChain(args: string[], rules: OptionRule[]): Promise<{ own: string[]; chain: string[] }> {
  const core = await loadCore();
  const activators = new Set<string>(JSON.parse(call(core, () => core.activators())));
  const own: string[] = [];
  const chain: string[] = [];
  let active = false;
  for (let at = 0; at < args.length; ++at) {
    const arg = args[at]!;
    if (arg === '--') {
      chain.push(...args.slice(at + 1));
      break;
    }
    active ||= activators.has(arg);
    const long = arg.startsWith('--');
    const rule = long ? rules.find(one => one.name === arg.slice(2).split('=')[0])
      : arg.startsWith('-') && (!active || ['-i', '-o', '-v'].includes(arg)) ? rules.find(one => one.short === arg[1]) : undefined;
    if (rule === undefined) {
      chain.push(arg);
      continue;
    }
    own.push(arg);
    const attached = long ? arg.includes('=') : arg.length > 2;
    if (!attached && rule.values > 0 && at + 1 < args.length) own.push(args[++at]!);
  }
  return { own, chain };
}

export async function runCommand(session: Session, chain: string[], args: Arguments): Promise<number> {
  const core = await loadCore();
  const chosen: Operation[] = JSON.parse(call(core, () => core.chain(JSON.stringify(chain))));
  return transform(session, 'run', INPUT, chosen, args);
}

export const VALIDATE: OptionRule[] = [
  { name: 'pipe', values: 1, shows: 'SPEC', help: 'What to run: dtype:D, filter:GLOB or exclude:GLOB; without it the model as it is' },
];

async function pipeOf(spec: string): Promise<Operation> {
  const colon = spec.indexOf(':');
  const kind = spec.slice(0, colon < 0 ? undefined : colon);
  const text = spec.slice(colon + 1);
  if (colon >= 0 && kind === 'filter') return { id: 'filter', options: [{ name: 'include', values: [text] }] };
  if (colon >= 0 && kind === 'exclude') return { id: 'filter', options: [{ name: 'exclude', values: [text] }] };
  if (colon >= 0 && kind === 'dtype') {
    const cast = (await operations()).find(one => one.id === 'cast')!;
    const choices = cast.options.find(option => option.name === 'dtype')!.choices!;
    if (choices.includes(text)) return { id: 'cast', options: [{ name: 'dtype', values: [text] }] };
    throw usage(`--pipe names the dtype "${text}", which is not one of ${choices.join(', ')}.`);
  }
  throw usage(`--pipe is "${spec}", not dtype:D, filter:GLOB or exclude:GLOB.`);
}

export async function validate(session: Session, args: Arguments): Promise<number> {
  const start = performance.now();
  if (args.words.length !== 1) throw usage('One MODEL is needed (see tftf validate --help).');
  const spec = value(args, 'pipe');
  const chosen = spec === undefined ? [] : [await pipeOf(spec)];
  const tree: SourceTree = await treeOf(args.words[0]!, session);
  const plan = await planTransform(tree, { command: 'validate', operations: chosen, output: '', dryRun: true, examine: true,
    maxHeader: session.maxHeader }, session.task);
  try {
    checkMemory(session, plan);
    await examine(plan, session.task);
    warnAll(session, plan.account().warnings);
    const elapsed = Math.round(performance.now() - start);
    session.print(call(plan.core, () => plan.transformation.validation(!session.json, session.verbose, elapsed)));
    return 0;
  } finally {
    await plan.close();
  }
}
