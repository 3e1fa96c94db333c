import * as path from 'node:path';
import { statSync } from 'node:fs';
import { call, loadCore } from '../core.js';
import type { OperationInfo } from '../documents.js';
import { TftfError } from '../error.js';
import { operations } from '../opening.js';
import { planTransform, type PlannedTransform } from '../planning.js';
import { examine, run } from '../running.js';
import { checkTarget, pathSink } from '../sinks/node-sink.js';
import type { SourceTree } from '../source.js';
import type { Operation } from '../transform.js';
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
const IGNORED: Record<string, OptionRule[]> = { 'dequant-fp8': [{ name: 'device', values: 1 }] };

export interface Command {
  name: string;
  summary: string;
  /** Operations whose options it takes; `optional`: only meant when one of them is given. */
  operations: { id: string; optional?: boolean }[];
}

/** The commands that are made from the table of operations. */
export const COMMANDS: Command[] = [
  { name: 'passthrough', summary: 'Copy a model: filtered, cast, packed anew, or just as it is',
    operations: [{ id: 'filter', optional: true }, { id: 'cast', optional: true }] },
  { name: 'dequant-fp8', summary: 'Turn FP8 weights with their scales into plain floats', operations: [{ id: 'dequant-fp8' }] },
];

function optionRules(info: OperationInfo): OptionRule[] {
  const shows = { flag: '', choice: '', integer: 'N', size: 'SIZE', glob: 'GLOB', rule: 'PATTERN REPLACEMENT', text: 'TEXT',
    number: 'NUMBER', path: 'PATH' };
  const rules = info.options.map((option): OptionRule => ({
    name: option.name,
    values: option.kind === 'flag' ? 0 : option.kind === 'rule' ? 2 : 1,
    shows: option.choices?.join('|') ?? shows[option.kind],
    help: option.help + (option.default === null ? '' : ` (${option.default})`),
  }));
  return [...rules, ...IGNORED[info.id] ?? []];
}

export async function commandRules(command: Command): Promise<OptionRule[]> {
  const table = await operations();
  const own = command.operations.flatMap(({ id }) => optionRules(table.find(one => one.id === id)!));
  return [INPUT, ...own, ...WRITE, ...COMMON];
}

/** Operations with what was given of their options, in the order given. */
async function chosenOperations(command: Command, args: Arguments): Promise<Operation[]> {
  const table = await operations();
  const chosen: Operation[] = [];
  for (const { id, optional } of command.operations) {
    const info = table.find(one => one.id === id)!;
    const options = optionRules(info).flatMap(rule =>
      (args.options.get(rule.name) ?? []).map(values => ({ name: rule.name, values })));
    const missing = info.options.find(option => option.required && !options.some(one => one.name === option.name));
    if (optional && options.length === 0) continue;
    if (missing !== undefined && options.length > 0) throw usage(`--${options[0]!.name} needs --${missing.name}.`);
    chosen.push({ id, options });
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

export async function transform(session: Session, command: string, chosen: Operation[], args: Arguments): Promise<number> {
  const input = needed(args, 'input');
  const output = needed(args, 'output');
  const dryRun = flag(args, 'dry-run');
  if (flag(args, 'single') && flag(args, 'sharded')) throw usage('--single excludes --sharded.');
  const single = flag(args, 'single') || (!flag(args, 'sharded') && output.endsWith('.safetensors'));
  const options = { single, overwrite: flag(args, 'overwrite') };
  const nowhere = dryRun && output === '/dev/null';
  const there = nowhere ? undefined : statSync(output, { throwIfNoEntry: false });
  const shard = value(args, 'max-shard-size');
  const tile = value(args, 'tile-size');
  const tree = await treeOf(input, session);
  if (there !== undefined && there.isDirectory() === single) checkTarget(output, options, output, [], tree);
  const request = {
    command, operations: chosen, output, dryRun, align: flag(args, 'align'), maxHeader: session.maxHeader,
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
  return transform(session, command.name, await chosenOperations(command, args), args);
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
  return transform(session, 'run', chosen, args);
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
