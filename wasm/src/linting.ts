import { argument, call, CoreMemory, free, loadCore, type Core, type CoreLintReport, type CoreLintRun } from './core.js';
import type { LintDocument, RuleInfo } from './documents.js';
import { OpenFiles, readReason } from './files.js';
import type { LintOptions, LintReport, ReportFormat, TextStyle } from './lint.js';
import { serve } from './serving.js';
import type { SourceEntry, SourceTree } from './source.js';
import { Task } from './task.js';

class FinishedReport implements LintReport {
  readonly failed: boolean;
  constructor(private readonly core: Core, private readonly report: CoreLintReport) {
    this.failed = call(core, () => report.failed());
  }
  render(format: ReportFormat, style: TextStyle = {}): string {
    return call(this.core, () => this.report.render(format, argument(style)));
  }
  document(): LintDocument { return JSON.parse(this.render('json')); }
  close(): void { free(this.report); }
}

/** What goes before file names where someone outside the tree must find them. */
function placeOf(tree: SourceTree): string {
  if (tree.place !== undefined) return tree.place;
  return tree.main === undefined && tree.given !== '' ? `${tree.given}/` : '';
}

interface Part {
  file: number;
  offset: number;
  length: number;
}

/** Reads the tensors of all sound files: pieces next to each other at once, each looked at on its own. */
class DataReading {
  private readonly memory: [CoreMemory, CoreMemory];
  private done = 0;
  constructor(private readonly core: Core, private readonly run: CoreLintRun, private readonly files: OpenFiles,
    private readonly task: Task) {
    this.memory = [new CoreMemory(core), new CoreMemory(core)];
  }

  async go(): Promise<void> {
    const { core, run } = this;
    call(core, () => run.beginData());
    try {
      await this.stage('reading');
      while (call(core, () => run.nextStage())) await this.stage('comparing');
      call(core, () => run.finishData());
    } finally {
      for (const memory of this.memory) memory.close();
    }
  }

  private piece(index: number): Part[] {
    const at = call(this.core, () => this.run.piece(index)) / 8;
    const numbers = this.core.HEAPF64;
    return Array.from({ length: numbers[at]! }, (_, i) => ({
      file: numbers[at + 1 + 3 * i]!, offset: numbers[at + 2 + 3 * i]!, length: numbers[at + 3 + 3 * i]!,
    }));
  }

  private async stage(stage: 'reading' | 'comparing'): Promise<void> {
    const total = call(this.core, () => this.run.dataBytes());
    const count = call(this.core, () => this.run.pieceCount());
    this.done = 0;
    for (let index = 0; index < count;) {
      await this.task.breathe();
      index += await this.block(index, count);
      this.task.report(stage, this.done, total);
    }
    this.task.report(stage, total, total, undefined, true);
  }

  /** Reads and looks at as many pieces as lie next to each other in a block; gives their number. */
  private async block(first: number, count: number): Promise<number> {
    const { core, run } = this;
    const pieces = [this.piece(first)];
    const lead = pieces[0]![0]!;
    let end = lead.offset + lead.length;
    if (pieces[0]!.length === 1) {
      while (first + pieces.length < count) {
        const next = this.piece(first + pieces.length);
        if (next.length !== 1 || next[0]!.file !== lead.file || next[0]!.offset !== end) break;
        if (end + next[0]!.length - lead.offset > this.files.tree.block) break;
        end += next[0]!.length;
        pieces.push(next);
      }
    }
    const parts = pieces.length === 1 ? pieces[0]! : [{ ...lead, length: end - lead.offset }];
    for (const part of parts) {
      if (call(core, () => run.dataFailed(part.file))) return pieces.length;
    }
    const at = [0, 0];
    for (const [i, part] of parts.entries()) {
      this.done += part.length;
      at[i] = this.memory[i]!.reserve(part.length);
      try {
        const source = await this.files.get(call(core, () => run.dataFile(part.file)), this.task.signal);
        if (source.readSync !== undefined) {
          source.readSync(part.offset, core.HEAPU8.subarray(at[i]!, at[i]! + part.length));
        } else {
          const bytes = await source.read(part.offset, part.length, this.task.signal);
          core.HEAPU8.set(bytes, at[i]!);
        }
      } catch (error) {
        this.task.check();
        call(core, () => run.failData(part.file, readReason(error)));
        return pieces.length;
      }
    }
    pieces.forEach((piece, i) => {
      call(core, () => run.runPiece(first + i, at[0]! + piece[0]!.offset - lead.offset, at[1]!));
    });
    return pieces.length;
  }
}

// The native linter's words.
const NOT_REGULAR = 'not a regular file';
const NOT_THERE = 'no such file or directory';

/** What the linter is told of a tree: a lone file is that file, an index brings its folder. */
async function describe(core: Core, tree: SourceTree, task: Task): Promise<{ given: string; main: string | null; files: SourceEntry[] }> {
  const { given, main } = tree;
  const lone = (path: string, entry?: SourceEntry, reason = NOT_THERE): SourceEntry =>
    entry === undefined ? { path, folder: false, size: 0, unreadable: reason }
      : entry.irregular ? { ...entry, unreadable: NOT_REGULAR } : entry;
  if (main !== undefined && !call(core, () => core.isIndexName(main))) {
    return { given, main, files: [lone(main, await tree.find(main, task.signal))] };
  }
  const name = main ?? given.replace(/\/+$/, '').replace(/^.*\//, '');
  let files: SourceEntry[];
  try {
    files = await tree.walk(task.signal);
  } catch (error) {
    task.check();
    return { given, main: name, files: [lone(name, undefined, readReason(error))] };
  }
  // An index that is a link to somewhere else is named by the user, and so taken.
  if (main !== undefined && !files.some(entry => entry.path === main)) {
    files = [...files, lone(main, await tree.find(main, task.signal))];
  }
  return { given, main: main ?? null, files };
}

async function lintTree(core: Core, tree: SourceTree, options: LintOptions, task: Task): Promise<CoreLintRun> {
  const files = new OpenFiles(tree);
  const base = options.base === undefined ? undefined : new OpenFiles(options.base);
  const request = argument({
    tree: await describe(core, tree, task),
    base: options.base === undefined ? null : await describe(core, options.base, task),
    maxHeader: options.maxHeader ?? null,
  });
  const run = call(core, () => core.openLint(request));
  try {
    const done = new Set<string>();
    await serve(core, run, files, task, base, file => {
      done.add(file);
      task.report('headers', done.size, done.size, file);
    });
    call(core, () => run.finish());
    if (options.data) await new DataReading(core, run, files, task).go();
    return run;
  } catch (error) {
    run.delete();
    throw error;
  } finally {
    await files.close();
    await base?.close();
  }
}

/**
 * Checks files and folders against the rules. Rejects with 'usage' for options that contradict each other; what is wrong
 * with the files is in the report.
 */
export async function lint(inputs: SourceTree | SourceTree[], options: LintOptions = {}): Promise<LintReport> {
  const core = await loadCore();
  const task = new Task(options);
  const report = call(core, () => core.openReport(argument({
    only: options.only ?? [],
    ignore: options.ignore ?? [],
    severities: options.severity ?? [],
    maxIssues: options.maxIssues ?? null,
    failOn: options.failOn ?? '',
    strict: options.strict ?? false,
    configFile: options.config?.file ?? '',
    configText: options.config?.text ?? '',
    data: options.data ?? false,
    base: options.base !== undefined,
    timestamp: options.timestamp ?? '',
  })));
  try {
    for (const tree of Array.isArray(inputs) ? inputs : [inputs]) {
      const run = await lintTree(core, tree, options, task);
      try {
        call(core, () => report.add(run, placeOf(tree)));
      } finally {
        run.delete();
      }
    }
    call(core, () => report.finish());
    return new FinishedReport(core, report);
  } catch (error) {
    report.delete();
    throw error;
  }
}

/** The catalogue of rules. */
export async function rules(): Promise<RuleInfo[]> {
  const core = await loadCore();
  return JSON.parse(call(core, () => core.rules('', false, false))).rules;
}

/** The catalogue, or one rule of it, as the linter prints it. */
export async function rulesText(id = '', format: 'text' | 'json' = 'text', colour = false): Promise<string> {
  const core = await loadCore();
  return call(core, () => core.rules(id, format === 'text', colour));
}
