// `tftf colibri`: converters of containers, and answers about them.
import { createHash } from 'node:crypto';
import { closeSync, createReadStream, fsyncSync, openSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import * as path from 'node:path';
import { call, CoreMemory, loadCore } from '../core.js';
import { TftfError } from '../error.js';
import { OpenFiles } from '../files.js';
import { readModel } from '../model.js';
import { quoteName } from '../names.js';
import { planFolder, type PlannedTransform } from '../planning.js';
import { run } from '../running.js';
import { checkTarget, pathSink } from '../sinks/node-sink.js';
import { pathTree, reasonOf } from '../sources/node-tree.js';
import type { SourceTree } from '../source.js';
import { Task } from '../task.js';
import { flag, size, value, values, type CommandLine } from './arguments.js';
import { treeOf } from './inspection.js';
import { exitStatus, type Session } from './session.js';
import { checkMemory, report, reportPlan } from './transforms.js';

const MOST_BATCH = 256 << 20;

function printAnswer(session: Session, answer: { text: string; refusal: string | null }): number {
  session.print(answer.text);
  if (answer.refusal === null) return 0;
  session.warn(answer.refusal);
  return exitStatus('refused-input');
}

async function batch(session: Session, tool: string, file: string): Promise<number> {
  let bytes: Uint8Array;
  try {
    const { size: length } = statSync(file);
    if (length > MOST_BATCH) throw new TftfError('refused-input', `${quoteName(file)} has ${length} bytes; up to ${MOST_BATCH} are read.`, { file });
    bytes = readFileSync(file);
  } catch (error) {
    if (error instanceof TftfError) throw error;
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw new TftfError('usage-path', `There is no ${quoteName(file)}.`, { file });
    throw new TftfError('io-read', `Cannot open ${quoteName(file)}: ${reasonOf(error)}.`, { file });
  }
  const core = await loadCore();
  const memory = new CoreMemory(core);
  try {
    const at = memory.reserve(bytes.length);
    core.HEAPU8.set(bytes, at);
    session.print(call(core, () => core.batch(tool, at, bytes.length, file)));
  } finally {
    memory.close();
  }
  return 0;
}

export async function resolve(session: Session, line: CommandLine): Promise<number> {
  const file = value(line, 'batch');
  if (file !== undefined) return batch(session, 'resolve', file);
  const core = await loadCore();
  return printAnswer(session, JSON.parse(call(core, () => core.resolve(JSON.stringify(line.arguments)))));
}

export const classify = (session: Session, line: CommandLine): Promise<number> => batch(session, 'classify', value(line, 'batch')!);

export async function stamps(session: Session, line: CommandLine): Promise<number> {
  const core = await loadCore();
  const given = line.words[0]!;
  const files = new OpenFiles(await treeOf(given, session));
  try {
    const model = await readModel(core, files, { strict: false, maxHeader: session.maxHeader }, new Task(session.task));
    try {
      return printAnswer(session, JSON.parse(call(core, () => core.stamps(model, given, JSON.stringify(values(line, 'query'))))));
    } finally {
      model.delete();
    }
  } finally {
    await files.close();
  }
}

/** A folder whose shards all count, whatever an index says. */
async function shardFolder(given: string): Promise<SourceTree> {
  const tree = await pathTree(given);
  if (tree.main !== undefined) throw new TftfError('usage-path', `${quoteName(given)} is a file where a folder is needed.`, { file: given });
  return tree;
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of createReadStream(file)) hash.update(piece as Uint8Array);
  return hash.digest('hex');
}

/** The file that is written last, of digests of what has been written. */
async function writeManifest(plan: PlannedTransform, folder: string): Promise<void> {
  const name = call(plan.core, () => plan.transformation.manifestName());
  if (name === '') return;
  const digests: string[] = [];
  for (const output of plan.summary().outputs) digests.push(await digestOf(path.join(folder, output.name)));
  const file = path.join(folder, name);
  const part = `${file}.tftf-part`;
  try {
    const descriptor = openSync(part, 'w');
    try {
      writeFileSync(descriptor, call(plan.core, () => plan.transformation.manifest(JSON.stringify(digests))));
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(part, file);
  } catch (error) {
    rmSync(part, { force: true });
    throw error instanceof TftfError ? error : new TftfError('io-write', `Cannot write ${quoteName(file)}: ${reasonOf(error)}.`, { file });
  }
}

export async function folderTool(session: Session, line: CommandLine): Promise<number> {
  const input = value(line, 'indir')!;
  const output = value(line, 'outdir')!;
  const dryRun = flag(line, 'dry-run');
  const overwrite = flag(line, 'overwrite') || flag(line, 'force');
  const options = { overwrite, beside: true };
  const tree = await shardFolder(input);
  const there = statSync(output, { throwIfNoEntry: false });
  const existing = there === undefined ? undefined : await shardFolder(output);
  const plan = await planFolder(tree, existing, {
    words: line.arguments, output, dryRun, maxHeader: session.maxHeader,
    tileBytes: await size(line, 'tile-size'),
  }, session.task);
  try {
    const notes: string[] = JSON.parse(call(plan.core, () => plan.transformation.notes()));
    if (!session.quiet) for (const note of notes) session.say(`${note}\n`);
    checkMemory(session, plan);
    if (dryRun) {
      checkTarget(output, options, output, plan.outputs.map(file => file.name), tree);
      reportPlan(session, plan);
      return 0;
    }
    await run(plan, pathSink(output, options), session.task);
    await writeManifest(plan, output);
    report(session, plan, false);
    return 0;
  } finally {
    await plan.close();
  }
}
