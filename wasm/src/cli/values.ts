import { TftfError } from '../error.js';
import { compare, statistics, tensorHeatMap, type Selection } from '../measuring.js';
import { quoteName } from '../names.js';
import { count, flag, usage, value, values, type Arguments, type OptionRule } from './arguments.js';
import { treeOf } from './inspection.js';
import { exitStatus, type Session } from './session.js';

const SELECTION: OptionRule[] = [
  { name: 'include', values: 1, shows: 'GLOB', help: 'Only tensors whose name matches' },
  { name: 'exclude', values: 1, shows: 'GLOB', help: 'Not the tensors whose name matches' },
  { name: 'tensor', values: 1, shows: 'NAME', help: 'Only the tensor of this name' },
];

export const STATS: OptionRule[] = [
  ...SELECTION,
  { name: 'logical', values: 0, shows: '', help: 'Quantised weights dequantised, in the dtype that their layout gives' },
  { name: 'histogram', values: 1, shows: 'BINS', help: 'Count the values in this many bins of equal width' },
  { name: 'heat-map', values: 1, shows: 'HEIGHTxWIDTH', help: 'Instead of statistics: means of blocks of one tensor' },
  { name: 'rows', values: 1, shows: 'BEGIN:END', help: 'The heat map of these rows alone' },
  { name: 'columns', values: 1, shows: 'BEGIN:END', help: 'The heat map of these columns alone' },
];

export const DIFF: OptionRule[] = [
  ...SELECTION,
  { name: 'values', values: 0, shows: '', help: 'Compare the values, not the headers alone' },
  { name: 'tolerance', values: 1, shows: 'T', help: 'Relative L2 distance that still counts as close (with --values)' },
  { name: 'strict', values: 0, shows: '', help: 'With --values: dtypes, layouts, metadata and configuration count, too' },
];

function selection(session: Session, args: Arguments): Selection {
  return {
    ...session.task, include: values(args, 'include'), exclude: values(args, 'exclude'), names: values(args, 'tensor'),
    ...(session.maxHeader === undefined ? {} : { maxHeader: session.maxHeader }),
  };
}

const width = (): number => process.stdout.isTTY ? process.stdout.columns || 80 : 0;

function twoNumbers(text: string, between: string): [number, number] | undefined {
  const match = new RegExp(`^(\\d{1,15})${between}(\\d{1,15})$`).exec(text);
  return match === null ? undefined : [Number(match[1]), Number(match[2])];
}

function span(args: Arguments, name: string): [number, number] | undefined {
  const text = value(args, name);
  if (text === undefined) return undefined;
  const ends = twoNumbers(text, ':');
  if (ends === undefined || ends[0] >= ends[1]) throw usage(`--${name}: ${text} is not BEGIN:END with BEGIN below END.`);
  return ends;
}

async function heatMap(session: Session, args: Arguments, size: string): Promise<number> {
  const cells = twoNumbers(size, 'x');
  if (cells === undefined || cells[0] === 0 || cells[1] === 0) throw usage(`--heat-map: ${size} is not HEIGHTxWIDTH.`);
  const names = values(args, 'tensor');
  if (names.length !== 1) throw usage('--heat-map wants one --tensor.');
  const rows = span(args, 'rows');
  const columns = span(args, 'columns');
  const report = await tensorHeatMap(await treeOf(args.words[0]!, session), {
    ...session.task, name: names[0]!, logical: flag(args, 'logical'), height: cells[0], width: cells[1],
    ...(rows === undefined ? {} : { rowBegin: rows[0], rowEnd: rows[1] }),
    ...(columns === undefined ? {} : { columnBegin: columns[0], columnEnd: columns[1] }),
    ...(session.maxHeader === undefined ? {} : { maxHeader: session.maxHeader }),
  });
  session.print(session.json ? report.json : report.text());
  await report.close();
  return 0;
}

export async function stats(session: Session, args: Arguments): Promise<number> {
  if (args.words.length !== 1) throw usage('One MODEL is needed (see tftf stats --help).');
  const size = value(args, 'heat-map');
  if (size !== undefined) return heatMap(session, args, size);
  const bins = value(args, 'histogram');
  const report = await statistics(await treeOf(args.words[0]!, session), {
    ...selection(session, args), logical: flag(args, 'logical'),
    ...(bins === undefined ? {} : { bins: count(bins, '--histogram') }),
  });
  session.print(session.json ? report.json : report.text(width()));
  if (report.selected === 0) session.warn('no tensor is selected.');
  await report.close();
  return 0;
}

export async function diff(session: Session, args: Arguments): Promise<number> {
  if (args.words.length !== 2) throw usage('Two models are needed (see tftf diff --help).');
  const tolerance = value(args, 'tolerance');
  const number = tolerance === undefined ? undefined : Number(tolerance);
  if (number !== undefined && !(number >= 0 && tolerance !== '')) throw usage(`--tolerance takes a number from 0, not ${quoteName(tolerance!)}.`);
  const [left, right] = args.words as [string, string];
  const report = await compare(await treeOf(left, session), await treeOf(right, session), {
    ...selection(session, args), values: flag(args, 'values') || number !== undefined, strict: flag(args, 'strict'),
    ...(number === undefined ? {} : { tolerance: number }),
  });
  session.print(session.json ? report.json : report.text(width()));
  if (report.selected === 0) session.warn('no tensor is selected.');
  await report.close();
  if (report.difference === '') return 0;
  const error = new TftfError('refused-different', report.difference);
  session.warn(`${quoteName(left)} and ${quoteName(right)} are different: ${error.message}`);
  return exitStatus(error.code);
}
