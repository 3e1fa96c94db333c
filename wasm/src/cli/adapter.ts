// `tftf adapter convert`: an adapter in the form of another family.
import { statSync } from 'node:fs';
import * as path from 'node:path';
import { TftfError } from '../error.js';
import { quoteName } from '../names.js';
import { planAdapter } from '../planning.js';
import { run } from '../running.js';
import { checkTarget, pathSink } from '../sinks/node-sink.js';
import { flag, size, value, type CommandLine } from './arguments.js';
import { treeOf } from './inspection.js';
import type { Session } from './session.js';
import { checkMemory, report, reportPlan } from './transforms.js';

export async function adapterConvert(session: Session, line: CommandLine): Promise<number> {
  const output = value(line, 'output')!;
  const dryRun = flag(line, 'dry-run');
  const single = output.endsWith('.safetensors');
  const options = { single, overwrite: flag(line, 'overwrite') };
  const nowhere = dryRun && output === '/dev/null';
  const there = nowhere ? undefined : statSync(output, { throwIfNoEntry: false });
  if (there !== undefined && there.isDirectory() === single) {
    throw new TftfError('usage-path', `${quoteName(output)} is a ${single ? 'folder where a file is to be written' : 'file where a folder is needed'}.`,
      { file: output });
  }
  const tree = await treeOf(value(line, 'input')!, session);
  const base = value(line, 'base');
  const plan = await planAdapter(tree, base === undefined ? undefined : await treeOf(base, session), {
    words: line.arguments, output, dryRun, maxHeader: session.maxHeader, tileBytes: await size(line, 'tile-size'),
    ...(single ? { singleName: path.basename(output) } : {}),
  }, session.task);
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
