// `tftf` in Node.js: the native program's commands, options, words and exit statuses, by the same table.
import '../node.js';
import { call, loadCore } from '../core.js';
import { TftfError } from '../error.js';
import { version } from '../version.js';
import { adapterConvert } from './adapter.js';
import { readCommandLine, type CommandLine } from './arguments.js';
import { classify, folderTool, resolve, stamps } from './colibri.js';
import { adapterInfo, info, lintCommand, rules } from './inspection.js';
import { Session } from './session.js';
import { distributedMerge, operationCommand, shardedMerge, validate } from './transforms.js';
import { diff, stats } from './values.js';

type Run = (session: Session, line: CommandLine) => Promise<number>;

async function formats(session: Session): Promise<number> {
  const core = await loadCore();
  session.print(call(core, () => core.formats(!session.json)));
  return 0;
}

async function completion(session: Session, line: CommandLine): Promise<number> {
  const core = await loadCore();
  session.print(call(core, () => core.completion(line.words[0]!)));
  return 0;
}

/** What each command of the table does here. */
const RUNS: Record<string, Run> = {
  'passthrough': operationCommand, 'dequant-fp8': operationCommand, 'dequant': operationCommand, 'convert': operationCommand, 'quantize': operationCommand,
  'repack': operationCommand, 'graft': operationCommand, 'merge-lora': operationCommand, 'run': operationCommand,
  'merge-fsdp-lora': shardedMerge, 'merge-dcp-lora': distributedMerge, validate,
  'lint': lintCommand, 'lint rules': rules, info, stats, diff,
  'adapter info': adapterInfo, 'adapter convert': adapterConvert,
  'colibri quantize': operationCommand, 'colibri dequant': operationCommand, 'colibri resolve': resolve,
  'colibri classify': classify, 'colibri stamps': stamps, 'colibri convert': folderTool, 'colibri repack-fp8': folderTool,
  'colibri fmt4-to-fmt2': folderTool, 'colibri rans-repack': folderTool,
  formats, completion,
};

/** Runs the program; gives the exit status. */
export async function main(args: string[]): Promise<number> {
  const session = new Session();
  session.json = args.includes('--json');
  try {
    const line = await readCommandLine(args);
    await session.take(line);
    if (line.wish === 'help') {
      session.print(line.help!);
      return 0;
    }
    if (line.wish === 'version') {
      session.print(`tftf, version ${await version()}\n`);
      return 0;
    }
    const run = RUNS[line.path];
    if (run === undefined) throw new TftfError('internal', `A defect of this program: nothing runs ${line.path}.`);
    return await run(session, line);
  } catch (error) {
    return session.fail(error);
  }
}
