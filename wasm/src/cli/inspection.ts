import { readFileSync, statSync, writeFileSync, renameSync, rmSync } from 'node:fs';
import { TftfError } from '../error.js';
import { lint, rulesText } from '../linting.js';
import type { LintOptions, ReportFormat } from '../lint.js';
import { quoteName } from '../names.js';
import { openCheckpoint } from '../opening.js';
import type { SourceTree } from '../source.js';
import { pathTree, reasonOf } from '../sources/node-tree.js';
import { urlTree } from '../sources/http-tree.js';
import { count, flag, usage, value, values, type Arguments, type OptionRule } from './arguments.js';
import { exitStatus, type Session } from './session.js';

/** A path of this machine, or an address. */
export function treeOf(given: string, session: Session): Promise<SourceTree> {
  return /^(https?|hf):\/\//.test(given) ? urlTree(given, { signal: session.task.signal }) : pathTree(given);
}

export const INFO: OptionRule[] = [
  { name: 'filter', values: 1, shows: 'TEXT', help: 'Only tensors whose name holds this text' },
  { name: 'dtype-summary', values: 0, shows: '', help: 'Dtypes and their counts instead of tensors' },
  { name: 'offsets', values: 0, shows: '', help: 'Show where each tensor lies in its data section' },
  { name: 'fold', values: 0, shows: '', help: 'Fold layer and expert numbers' },
  { name: 'no-fold', values: 0 },
];

// On a terminal more rows than this are folded, unless --no-fold says otherwise.
const FOLDED_ROWS = 200;

export async function info(session: Session, args: Arguments): Promise<number> {
  if (args.words.length !== 1) throw usage('One MODEL is needed (see tftf info --help).');
  const options = session.maxHeader === undefined ? session.task : { ...session.task, maxHeader: session.maxHeader };
  const checkpoint = await openCheckpoint(await treeOf(args.words[0]!, session), options);
  const filter = value(args, 'filter') ?? '';
  const some = filter === '' || checkpoint.matches(filter);
  if (session.json) {
    session.print(checkpoint.infoJson(filter));
  } else {
    const width = process.stdout.isTTY ? process.stdout.columns || 80 : 0;
    const offsets = flag(args, 'offsets');
    const many = width > 0 && !offsets && checkpoint.info(filter).tensors.length > FOLDED_ROWS;
    const fold = flag(args, 'fold') || (many && !flag(args, 'no-fold'));
    session.print(checkpoint.infoText({ filter, dtypeSummary: flag(args, 'dtype-summary'), offsets, fold, width }));
  }
  if (!some && checkpoint.matches('')) session.warn(`no tensor name holds ${quoteName(filter)}.`);
  const broken = checkpoint.broken();
  await checkpoint.close();
  if (broken === null) return 0;
  session.warn(broken.message);
  return exitStatus(broken.code);
}

export const LINT: OptionRule[] = [
  { name: 'data', values: 0, shows: '', help: "Read the tensors' values too (NaN, infinities, zeros, duplicates)" },
  { name: 'base', values: 1, shows: 'DIR', help: 'Base model that adapters are checked against' },
  { name: 'fail-on', values: 1, shows: 'error|warning|info', help: 'Level from which on the exit status is 1 (error)' },
  { name: 'strict', values: 0, shows: '', help: 'The same as --fail-on warning' },
  { name: 'ignore', values: 1, shows: 'ID[,ID]', help: 'Leave these rules out' },
  { name: 'only', values: 1, shows: 'ID[,ID]', help: 'Check these rules only' },
  { name: 'severity', values: 1, shows: 'ID=LEVEL', help: 'Treat a rule as error, warning, info or hint' },
  { name: 'max-issues', values: 1, shows: 'N', help: 'Most messages of one rule in one file (100; 0: all)' },
  { name: 'config', values: 1, shows: 'FILE', help: 'JSON file with ignore, only, override, max-issues' },
  { name: 'format', values: 1, shows: 'text|json|sarif|github|junit', help: 'Form of the report (text)' },
  { name: 'output', values: 1, shows: 'FILE', help: 'Write the report to this file' },
  { name: 'timestamp', values: 0, shows: '', help: 'Put the time into the report' },
];

const MOST_CONFIG = 1 << 20;

function readConfig(file: string): { file: string; text: string } {
  let text: string;
  try {
    if (statSync(file).size > MOST_CONFIG) throw usage(`${quoteName(file)} is longer than 1 MiB.`);
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof TftfError) throw error;
    const missing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    throw new TftfError(missing ? 'usage-path' : 'io-read', `Cannot open ${quoteName(file)}: ${reasonOf(error)}.`, { file });
  }
  return { file, text };
}

function writeReport(file: string, text: string): void {
  const part = `${file}.tftf-part`;
  try {
    writeFileSync(part, text);
    renameSync(part, file);
  } catch (error) {
    rmSync(part, { force: true });
    throw new TftfError('io-write', `Cannot write ${quoteName(file)}: ${reasonOf(error)}.`, { file });
  }
}

function chosenFormat(session: Session, args: Arguments): ReportFormat {
  const format = value(args, 'format');
  if (format === undefined) return session.json ? 'json' : 'text';
  if (!['text', 'json', 'sarif', 'github', 'junit'].includes(format)) {
    throw usage(`There is no report format ${quoteName(format)}; text, json, sarif, github and junit are.`);
  }
  if (session.json && format !== 'json') throw usage(`--json is --format json; the command line also says --format ${format}.`);
  return format as ReportFormat;
}

export async function lintCommand(session: Session, args: Arguments): Promise<number> {
  const colour = (process.stdout.isTTY ?? false) && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb';
  if (args.words[0] === 'rules' && args.words.length <= 2) {
    session.print(await rulesText(args.words[1], session.json ? 'json' : 'text', colour));
    return 0;
  }
  const format = chosenFormat(session, args);
  session.json = format === 'json';
  if (args.words.length === 0) throw usage('A PATH is needed: a file or a folder (see tftf lint --help).');
  const options: LintOptions = {
    ...session.task, data: flag(args, 'data'), strict: flag(args, 'strict'),
    only: values(args, 'only'), ignore: values(args, 'ignore'), severity: values(args, 'severity'),
  };
  const most = value(args, 'max-issues');
  if (most !== undefined) options.maxIssues = count(most, '--max-issues');
  const failOn = value(args, 'fail-on');
  if (failOn !== undefined) options.failOn = failOn;
  const config = value(args, 'config');
  if (config !== undefined) options.config = readConfig(config);
  if (flag(args, 'timestamp')) options.timestamp = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
  if (session.maxHeader !== undefined) options.maxHeader = session.maxHeader;
  const base = value(args, 'base');
  if (base !== undefined) {
    options.base = await treeOf(base, session);
    if (options.base.main !== undefined) throw new TftfError('usage-path', `${quoteName(base)} is not a folder.`, { file: base });
  }
  const trees = [];
  for (const word of args.words) trees.push(await treeOf(word, session));
  const report = await lint(trees, options);
  const output = value(args, 'output');
  const text = report.render(format, { colour: output === undefined && colour, quiet: session.quiet, verbose: session.verbose });
  if (output === undefined) session.print(text);
  else writeReport(output, text);
  return report.failed ? 1 : 0;
}
