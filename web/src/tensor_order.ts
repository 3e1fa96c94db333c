// The rows of the table: filtered tensors, folded over layers or not, in the chosen order.
import type { TensorColumns } from './engine/messages';

export type SortColumn = 'name' | 'dtype' | 'shape' | 'values' | 'bytes' | 'shard';
export interface Sorting {
  column: SortColumn | null; // null: as stored
  down: boolean;
}

// Tensors by position; a group of several as -1 - its position.
export type Rows = Int32Array;

const collator = new Intl.Collator('en', { numeric: true });
// Byte-wise for long lists: collation of a hundred thousand names takes longer than a frame or ten.
const compareNames = (count: number) => (count > 20000 ? (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0) : collator.compare);

export function tableRows(columns: TensorColumns, filtered: Uint32Array, folded: boolean, open: ReadonlySet<number>, sorting: Sorting): Rows {
  const sign = sorting.down ? -1 : 1;
  const names = compareNames(filtered.length);
  const tensorKey = (a: number, b: number): number => {
    switch (sorting.column) {
      case 'name': return names(columns.names[a]!, columns.names[b]!);
      case 'dtype': return names(columns.dtypes[columns.dtype[a]!]!, columns.dtypes[columns.dtype[b]!]!);
      case 'shape': return columns.shape[a] === columns.shape[b] ? 0 : names(columns.shapes[columns.shape[a]!]!, columns.shapes[columns.shape[b]!]!);
      case 'values': return columns.elements[a]! - columns.elements[b]!;
      case 'bytes': return columns.bytes[a]! - columns.bytes[b]!;
      case 'shard': return columns.file[a]! - columns.file[b]!;
      case null: return 0;
    }
  };
  const byTensor = (a: number, b: number) => sign * tensorKey(a, b) || a - b;
  if (!folded) {
    const rows = Int32Array.from(filtered);
    return sorting.column === null ? rows : rows.sort(byTensor);
  }
  const members = new Map<number, number[]>();
  for (const i of filtered) {
    const list = members.get(columns.group[i]!);
    if (list) list.push(i);
    else members.set(columns.group[i]!, [i]);
  }
  const groups = [...members.keys()];
  if (sorting.column !== null) {
    const total = (group: number, column: Float64Array) => members.get(group)!.reduce((sum, i) => sum + column[i]!, 0);
    const totals = sorting.column === 'bytes' ? columns.bytes : sorting.column === 'values' ? columns.elements : null;
    const sums = totals && new Map(groups.map((group) => [group, total(group, totals)]));
    groups.sort((a, b) => {
      const first = columns.groups[a]!;
      const second = columns.groups[b]!;
      const order = sums ? sums.get(a)! - sums.get(b)! : sorting.column === 'name' ? names(first.pattern, second.pattern) : tensorKey(first.first, second.first);
      return sign * order || first.first - second.first;
    });
  }
  const rows: number[] = [];
  for (const group of groups) {
    const list = members.get(group)!;
    if (columns.groups[group]!.count === 1) {
      rows.push(list[0]!);
      continue;
    }
    rows.push(-1 - group);
    if (open.has(group)) for (const i of sorting.column === null ? list : list.sort(byTensor)) rows.push(i);
  }
  return Int32Array.from(rows);
}
