// `tftf` in Node.js: the native program's commands, options, words and exit statuses.
import '../node.js';
import { quoteName } from '../names.js';
import { version } from '../version.js';
import { flag, parseArguments, usage, type Arguments, type OptionRule } from './arguments.js';
import { info, INFO, LINT, lintCommand } from './inspection.js';
import { COMMON, Session } from './session.js';
import {
  commandRules, COMMANDS, operationCommand, runCommand, runRules, splitChain, VALIDATE, validate,
} from './transforms.js';
import { diff, DIFF, stats, STATS } from './values.js';

interface Other {
  name: string;
  summary: string;
  usage: string;
  rules: OptionRule[];
  run: (session: Session, args: Arguments) => Promise<number>;
}
const OTHERS: Other[] = [
  { name: 'info', summary: 'Say what a model is: kind, layouts, sizes, tensors', usage: 'MODEL', rules: INFO, run: info },
  { name: 'lint', summary: 'Check files and folders against the rules of the format and its loaders', usage: 'PATH... | rules [ID]',
    rules: LINT, run: lintCommand },
  { name: 'stats', summary: 'Look at all values: extremes, mean, deviation, NaN, histograms', usage: 'MODEL', rules: STATS, run: stats },
  { name: 'diff', summary: 'Compare two models: names, dtypes, shapes, values', usage: 'LEFT RIGHT', rules: DIFF, run: diff },
  { name: 'validate', summary: 'Run a model through a pipe with all its data, writing nothing', usage: 'MODEL', rules: VALIDATE, run: validate },
];
const RUN = { name: 'run', summary: 'Run a model through a chain of pipes in one pass', usage: '-i MODEL -o OUT CHAIN' };

const pad = (text: string): string => (text.length < 32 ? text.padEnd(32) : `${text}\n${' '.repeat(34)}`);

function programHelp(): string {
  const lines = [...COMMANDS, RUN, ...OTHERS].map(({ name, summary }) => `  ${pad(name)}${summary}`);
  return `Inspect, lint and transform safetensors checkpoints of any size in little memory.\n\nUsage: tftf COMMAND [OPTIONS]\n\nCommands:\n${lines.join('\n')}\n\ntftf COMMAND --help tells the options of a command.\n`;
}

function commandHelp(name: string, summary: string, words: string, rules: OptionRule[]): string {
  const lines = rules.filter(rule => rule.shows !== undefined).map(({ name: long, short, shows, help }) =>
    `  ${pad(`${short === undefined ? '' : `-${short},`}--${long}${shows === '' ? '' : ` ${shows}`}`)}${help ?? ''}`);
  return `${summary}.\n\nUsage: tftf ${name} [OPTIONS] ${words}\n\nOptions:\n${lines.join('\n')}\n`;
}

async function dispatch(session: Session, name: string, rest: string[]): Promise<number> {
  const command = COMMANDS.find(one => one.name === name);
  const other = OTHERS.find(one => one.name === name);
  const known = command ?? other ?? (name === RUN.name ? RUN : undefined);
  if (known === undefined) throw usage(`There is no command ${quoteName(name)} (see tftf --help).`);
  const rules = command !== undefined ? await commandRules(command) : other !== undefined ? [...other.rules, ...COMMON] : await runRules();
  const { own, chain } = known === RUN ? await splitChain(rest, rules) : { own: rest, chain: [] };
  const args = parseArguments(own, rules);
  if (flag(args, 'help')) {
    session.print(commandHelp(name, known.summary, 'usage' in known ? known.usage : '-i MODEL -o OUT', rules));
    return 0;
  }
  await session.take(args);
  if (command !== undefined) return operationCommand(session, command, args);
  return other !== undefined ? other.run(session, args) : runCommand(session, chain, args);
}

/** Runs the program; gives the exit status. */
export async function main(args: string[]): Promise<number> {
  const session = new Session();
  session.json = args.includes('--json');
  const [name, ...rest] = args;
  try {
    if (name === undefined || name === '--help' || name === '-h') {
      session.print(programHelp());
      return 0;
    }
    if (name === '--version') {
      session.print(`tftf, version ${await version()}\n`);
      return 0;
    }
    return await dispatch(session, name, rest);
  } catch (error) {
    return session.fail(error);
  }
}
