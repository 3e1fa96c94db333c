import { readFileSync, statSync, writeFileSync, renameSync, rmSync } from 'node:fs';
import { call, loadCore } from '../core.js';
import { TftfError } from '../error.js';
import { lint, rulesText } from '../linting.js';
import type { LintOptions, ReportFormat } from '../lint.js';
import { quoteName } from '../names.js';
import { openCheckpoint } from '../opening.js';
import type { SourceTree } from '../source.js';
import { pathTree, reasonOf } from '../sources/node-tree.js';
import { urlTree } from '../sources/http-tree.js';
import { count, flag, usage, value, values, type CommandLine } from './arguments.js';
import { asciiWanted, exitStatus, terminalWidth, type Session } from './session.js';

/** A path of this machine, or an address. */
export function treeOf(given: string, session: Session): Promise<SourceTree> {
  return /^(https?|hf):\/\//.test(given) ? urlTree(given, { signal: session.task.signal }) : pathTree(given);
}

// On a terminal more rows than this are folded, unless --no-fold says otherwise.
const FOLDED_ROWS = 200;

export async function info(session: Session, line: CommandLine): Promise<number> {
  const options = session.maxHeader === undefined ? session.task : { ...session.task, maxHeader: session.maxHeader };
  const checkpoint = await openCheckpoint(await treeOf(line.words[0]!, session), options);
  const filter = value(line, 'filter') ?? '';
  const some = filter === '' || checkpoint.matches(filter);
  if (session.json) {
    session.print(checkpoint.infoJson(filter));
  } else {
    const width = terminalWidth(process.stdout);
    const offsets = flag(line, 'offsets');
    const many = width > 0 && !offsets && checkpoint.info(filter).tensors.length > FOLDED_ROWS;
    const fold = flag(line, 'fold') || (many && !flag(line, 'no-fold'));
    session.print(checkpoint.infoText({ filter, dtypeSummary: flag(line, 'dtype-summary'), offsets, fold, width, ascii: asciiWanted() }));
  }
  if (!some && checkpoint.matches('')) session.warn(`no tensor name holds ${quoteName(filter)}.`);
  const broken = checkpoint.broken();
  await checkpoint.close();
  if (broken === null) return 0;
  session.warn(broken.message);
  return exitStatus(broken.code);
}

/** Each adapter of a folder by itself, or the one that is given. */
export async function adapterInfo(session: Session, line: CommandLine): Promise<number> {
  const options = session.maxHeader === undefined ? session.task : { ...session.task, maxHeader: session.maxHeader };
  const given = line.words[0]!;
  const tree = await treeOf(given, session);
  const core = await loadCore();
  const entries = tree.main === undefined ? await tree.list(session.task.signal) : [];
  const names: string[] = JSON.parse(call(core, () => core.separateAdapters(JSON.stringify(entries))));
  const list: string[] = [];
  let status = 0;
  const tell = async (path: string, name: string | null) => {
    const checkpoint = await openCheckpoint(name === null ? tree : await treeOf(path, session), options);
    try {
      const json = checkpoint.adapterInfo(false);
      if (!session.json) session.print((list.length > 0 ? '\n' : '') + checkpoint.adapterInfo(true));
      else if (name === null) session.print(json);
      list.push(JSON.stringify({ file: name, ...JSON.parse(json) }));
      const wrong = checkpoint.broken() ?? checkpoint.noAdapter();
      if (wrong !== null) {
        session.warn(wrong.message);
        status = exitStatus(wrong.code);
      }
    } finally {
      await checkpoint.close();
    }
  };
  if (names.length === 0) {
    await tell(given, null);
    return status;
  }
  for (const name of names) await tell(`${given.replace(/\/+$/, '')}/${name}`, name);
  if (session.json) session.print(call(core, () => core.adapterList(JSON.stringify(list))));
  return status;
}

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

function chosenFormat(session: Session, line: CommandLine): ReportFormat {
  const format = value(line, 'format');
  if (format === undefined) return session.json ? 'json' : 'text';
  if (!['text', 'json', 'sarif', 'github', 'junit'].includes(format)) {
    throw usage(`There is no report format ${quoteName(format)}; text, json, sarif, github and junit are.`);
  }
  if (session.json && format !== 'json') throw usage(`--json is --format json; the command line also says --format ${format}.`);
  return format as ReportFormat;
}

const colourWanted = (): boolean => (process.stdout.isTTY ?? false) && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb';

export async function rules(session: Session, line: CommandLine): Promise<number> {
  session.print(await rulesText(line.words[0], session.json ? 'json' : 'text', colourWanted()));
  return 0;
}

export async function lintCommand(session: Session, line: CommandLine): Promise<number> {
  const colour = colourWanted();
  const format = chosenFormat(session, line);
  session.json = format === 'json';
  const options: LintOptions = {
    ...session.task, data: flag(line, 'data'), strict: flag(line, 'strict'),
    only: values(line, 'only'), ignore: values(line, 'ignore'), severity: values(line, 'severity'),
  };
  const most = count(line, 'max-issues');
  if (most !== undefined) options.maxIssues = most;
  const failOn = value(line, 'fail-on');
  if (failOn !== undefined) options.failOn = failOn;
  const config = value(line, 'config');
  if (config !== undefined) options.config = readConfig(config);
  if (flag(line, 'timestamp')) options.timestamp = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
  if (session.maxHeader !== undefined) options.maxHeader = session.maxHeader;
  const base = value(line, 'base');
  if (base !== undefined) {
    options.base = await treeOf(base, session);
    if (options.base.main !== undefined) throw new TftfError('usage-path', `${quoteName(base)} is not a folder.`, { file: base });
  }
  const trees = [];
  for (const word of line.words) trees.push(await treeOf(word, session));
  const report = await lint(trees, options);
  const output = value(line, 'output');
  const text = report.render(format, { colour: output === undefined && colour, quiet: session.quiet, verbose: session.verbose });
  if (output === undefined) {
    session.print(text);
  } else {
    try {
      writeReport(output, text);
    } catch (error) {
      // The report is not lost: who asked for it gets it here, and no second document behind it.
      session.print(text);
      session.json = false;
      throw error;
    }
  }
  return report.failed ? 1 : 0;
}
