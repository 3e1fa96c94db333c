import * as path from 'node:path';
import { statSync } from 'node:fs';
import type { AdapterSource } from '../adapter.js';
import { call } from '../core.js';
import { TftfError } from '../error.js';
import { planTransform, type PlannedTransform } from '../planning.js';
import { examine, run } from '../running.js';
import { checkTarget, pathSink } from '../sinks/node-sink.js';
import type { SourceTree } from '../source.js';
import type { Operation } from '../transform.js';
import { adapterOfRanks, checkApart, configOf, distributedAdapter, withAdapters } from './adapters.js';
import { flag, size, value, type CommandLine } from './arguments.js';
import { treeOf } from './inspection.js';
import type { Session } from './session.js';

export function checkMemory(session: Session, plan: PlannedTransform): void {
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

export function report(session: Session, plan: PlannedTransform, dryRun: boolean): void {
  const shown = !session.json && !session.quiet && process.stdout.isTTY;
  if (!shown) warnAll(session, plan.account().warnings);
  if (session.json) session.print(plan.accountJson());
  else if (!session.quiet || dryRun) session.print(plan.accountText(session.verbose));
}

async function transform(session: Session, line: CommandLine, chosen: Operation[]): Promise<number> {
  const input = value(line, 'base') ?? value(line, 'input')!;
  const output = value(line, 'output')!;
  const dryRun = flag(line, 'dry-run');
  const single = flag(line, 'single') || (!flag(line, 'sharded') && output.endsWith('.safetensors'));
  const options = { single, overwrite: flag(line, 'overwrite') };
  const nowhere = dryRun && output === '/dev/null';
  const there = nowhere ? undefined : statSync(output, { throwIfNoEntry: false });
  const maxShardSize = await size(line, 'max-shard-size');
  const tileBytes = await size(line, 'tile-size');
  const merging = await withAdapters(chosen, session);
  if (there !== undefined) checkApart(merging, output, there);
  const tree = await treeOf(input, session);
  if (there !== undefined && there.isDirectory() === single) checkTarget(output, options, output, [], tree);
  for (const { from } of merging) {
    if (from === undefined || nowhere) continue;
    checkTarget(output, { ...options, overwrite: true }, single ? path.dirname(output) : output, single ? [path.basename(output)] : [], from);
  }
  const request = {
    command: line.path, operations: merging, output, dryRun, maxHeader: session.maxHeader,
    // The form of a colibri header.
    align: flag(line, 'align') || line.path.startsWith('colibri '),
    ...(maxShardSize === undefined ? {} : { maxShardSize }),
    ...(single ? { singleName: path.basename(output) } : {}),
    ...(tileBytes === undefined ? {} : { tileBytes }),
  };
  const plan = await planTransform(tree, request, session.task);
  try {
    checkMemory(session, plan);
    if (dryRun) {
      const names = plan.outputs.map(file => file.name);
      if (!nowhere) checkTarget(output, options, single ? path.dirname(output) : output, names, tree);
      reportPlan(session, plan);
      return 0;
    }
    await run(plan, pathSink(output, options), session.task);
    report(session, plan, false);
    return 0;
  } finally {
    await plan.close();
  }
}

/** What a dry run prints. */
export function reportPlan(session: Session, plan: PlannedTransform): void {
  if (!session.json) session.print(`${plan.text(session.verbose)}memory ${plan.memoryBytes}\n\n`);
  report(session, plan, true);
}

export const operationCommand = (session: Session, line: CommandLine): Promise<number> => transform(session, line, line.operations);

async function mergeWith(session: Session, line: CommandLine, adapter: AdapterSource): Promise<number> {
  const config = await configOf(line.operations.find(({ id }) => id === 'merge-lora')!, session);
  const source = { ...adapter, ...(config && { config }) };
  return transform(session, line, line.operations.map(one => (one.id === 'merge-lora' ? { ...one, adapter: source } : one)));
}
export const shardedMerge = async (session: Session, line: CommandLine): Promise<number> =>
  mergeWith(session, line, await adapterOfRanks(line));
export const distributedMerge = async (session: Session, line: CommandLine): Promise<number> =>
  mergeWith(session, line, await distributedAdapter(line, session));

export async function validate(session: Session, line: CommandLine): Promise<number> {
  const start = performance.now();
  const tree: SourceTree = await treeOf(line.words[0]!, session);
  const plan = await planTransform(tree, { command: 'validate', operations: line.operations, output: '', dryRun: true, examine: true,
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
