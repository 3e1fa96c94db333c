import { TftfError } from '../error.js';
import { compare, statistics, tensorHeatMap, type Selection } from '../measuring.js';
import { quoteName } from '../names.js';
import { count, flag, value, values, type CommandLine } from './arguments.js';
import { treeOf } from './inspection.js';
import { asciiWanted, exitStatus, tableWidth, type Session } from './session.js';

function selection(session: Session, line: CommandLine): Selection {
  return {
    ...session.task, include: values(line, 'include'), exclude: values(line, 'exclude'), names: values(line, 'tensor'),
    ...(session.maxHeader === undefined ? {} : { maxHeader: session.maxHeader }),
  };
}

/** "32x100", "0:64", as the table of commands has checked them. */
function twoNumbers(line: CommandLine, name: string): [number, number] | undefined {
  const [first, second] = value(line, name)?.split(/[x:]/).map(Number) ?? [];
  return first === undefined ? undefined : [first, second!];
}

async function heatMap(session: Session, line: CommandLine): Promise<number> {
  const cells = twoNumbers(line, 'heat-map')!;
  const rows = twoNumbers(line, 'rows');
  const columns = twoNumbers(line, 'columns');
  const report = await tensorHeatMap(await treeOf(line.words[0]!, session), {
    ...session.task, name: value(line, 'tensor')!, logical: flag(line, 'logical'), height: cells[0], width: cells[1],
    ...(rows === undefined ? {} : { rowBegin: rows[0], rowEnd: rows[1] }),
    ...(columns === undefined ? {} : { columnBegin: columns[0], columnEnd: columns[1] }),
    ...(session.maxHeader === undefined ? {} : { maxHeader: session.maxHeader }),
  });
  session.print(session.json ? report.json : report.text());
  await report.close();
  return 0;
}

export async function stats(session: Session, line: CommandLine): Promise<number> {
  if (flag(line, 'heat-map')) return heatMap(session, line);
  const bins = count(line, 'histogram');
  const report = await statistics(await treeOf(line.words[0]!, session), {
    ...selection(session, line), logical: flag(line, 'logical'),
    ...(bins === undefined ? {} : { bins }),
  });
  session.print(session.json ? report.json : report.text(tableWidth(), asciiWanted()));
  if (report.selected === 0) session.warn('no tensor is selected.');
  await report.close();
  return 0;
}

export async function diff(session: Session, line: CommandLine): Promise<number> {
  const tolerance = value(line, 'tolerance');
  const number = tolerance === undefined ? undefined : Number(tolerance);
  const [left, right] = line.words as [string, string];
  const report = await compare(await treeOf(left, session), await treeOf(right, session), {
    ...selection(session, line), values: flag(line, 'values') || number !== undefined, strict: flag(line, 'strict'),
    ...(number === undefined ? {} : { tolerance: number }),
  });
  session.print(session.json ? report.json : report.text(tableWidth(), asciiWanted()));
  if (report.selected === 0) session.warn('no tensor is selected.');
  await report.close();
  if (report.difference === '') return 0;
  const error = new TftfError('refused-different', report.difference);
  session.warn(`${quoteName(left)} and ${quoteName(right)} are different: ${error.message}`);
  return exitStatus(error.code);
}
