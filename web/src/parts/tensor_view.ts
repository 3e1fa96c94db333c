// What the table of an input shows: kept while the person is in another place.
import { computed, signal, type ReadonlySignal, type Signal } from '@preact/signals';
import type { Input } from '../inputs';
import { filterTensors, type Filtered } from '../tensor_filter';
import { tableRows, type Rows, type Sorting } from '../tensor_order';

export interface TensorView {
  query: Signal<string>;
  folded: Signal<boolean>;
  open: Signal<ReadonlySet<number>>;
  sorting: Signal<Sorting>;
  cursor: Signal<number>; // position in rows
  filtered: ReadonlySignal<Filtered>;
  rows: ReadonlySignal<Rows>;
  shownBytes: ReadonlySignal<number>;
}

const views = new WeakMap<Input, TensorView>();

export function tensorView(input: Input): TensorView {
  const found = views.get(input);
  if (found) return found;
  const { tensors } = input;
  const shards = input.summary.files.map((file) => file.name);
  let lowered: string[] | null = null;
  const query = signal('');
  const folded = signal(true);
  const open = signal<ReadonlySet<number>>(new Set());
  const sorting = signal<Sorting>({ column: null, down: false });
  const filtered = computed(() => {
    lowered ??= tensors.names.map((name) => name.toLowerCase());
    return filterTensors(tensors, query.value, shards, lowered);
  });
  const rows = computed(() => tableRows(tensors, filtered.value.rows, folded.value, open.value, sorting.value));
  const shownBytes = computed(() => filtered.value.rows.reduce((sum, i) => sum + tensors.bytes[i]!, 0));
  const view: TensorView = { query, folded, open, sorting, cursor: signal(0), filtered, rows, shownBytes };
  views.set(input, view);
  return view;
}

export const tensorQuery = (input: Input): Signal<string> => tensorView(input).query;
