import { useEffect, useRef } from 'preact/hooks';
import { bytesCell, countText, nameText, parametersText } from '../format';
import type { Input } from '../inputs';
import { go, route } from '../route';
import type { SortColumn } from '../tensor_order';
import { DtypeMark } from './dtype_mark';
import { Icon } from './icons';
import { tensorView, type TensorView } from './tensor_view';
import { useVirtualList } from './virtual_list';

const rowHeight = 28;
const columns: { id: SortColumn; title: string; number?: boolean }[] = [
  { id: 'name', title: 'Name' },
  { id: 'dtype', title: 'Dtype' },
  { id: 'shape', title: 'Shape', number: true },
  { id: 'values', title: 'Values', number: true },
  { id: 'bytes', title: 'Bytes', number: true },
  { id: 'shard', title: 'File', number: true },
];

function toggle(view: TensorView, group: number, open?: boolean): void {
  const next = new Set(view.open.value);
  if (open ?? !next.has(group)) next.add(group);
  else next.delete(group);
  view.open.value = next;
}

function sortBy(view: TensorView, column: SortColumn): void {
  const { column: now, down } = view.sorting.value;
  const figures = column === 'bytes' || column === 'values';
  // Once: the useful direction; twice: the other; three times: as stored.
  view.sorting.value = now !== column ? { column, down: figures } : down === figures ? { column, down: !figures } : { column: null, down: false };
}

// The end of a name tells more than its beginning: where there is no room the beginning is cut.
function Name({ name, companion }: { name: string; companion?: boolean }) {
  return (
    <span class={companion ? 'name companion' : 'name'}>
      <bdi dir="ltr">{nameText(name, 300)}</bdi>
    </span>
  );
}

interface RowProps {
  input: Input;
  view: TensorView;
  index: number;
  top: number;
  selected: boolean;
  current: boolean;
}

function Cells({ first, dtype, shape, values, bytes, file }: { first: preact.ComponentChildren; dtype: string; shape: string; values: number; bytes: number; file: string }) {
  return (
    <>
      <div role="gridcell" class="cell-name">
        {first}
      </div>
      <div role="gridcell" class="cell-dtype">
        <DtypeMark dtype={dtype} />
      </div>
      <div role="gridcell" class="cell-shape number">
        {shape}
      </div>
      <div role="gridcell" class="cell-values number" title={countText(values)}>
        {parametersText(values)}
      </div>
      <div role="gridcell" class="cell-bytes number" title={`${countText(bytes)} bytes`}>
        {bytesCell(bytes)}
      </div>
      <div role="gridcell" class="cell-shard number">
        {file}
      </div>
    </>
  );
}

function TableRow({ input, view, index, top, selected, current }: RowProps) {
  const { tensors } = input;
  const row = view.rows.value[index]!;
  const common = {
    role: 'row' as const,
    id: `tensor-row-${index}`,
    'aria-rowindex': index + 2,
    style: { transform: `translateY(${top}px)` },
    class: `row${selected ? ' selected' : ''}${current ? ' current' : ''}`,
  };
  if (row < 0) {
    const group = -1 - row;
    const { pattern, count, dtype, shape, bytes, elements } = tensors.groups[group]!;
    const open = view.open.value.has(group);
    return (
      <div
        {...common}
        aria-expanded={open}
        aria-level={1}
        onClick={() => {
          view.cursor.value = index;
          toggle(view, group);
        }}
      >
        <Cells
          first={
            <>
              <span class={open ? 'twist open' : 'twist'}>
                <Icon name="arrow" />
              </span>
              <Name name={pattern} />
              <span class="times">×{countText(count)}</span>
            </>
          }
          dtype={tensors.dtypes[dtype]!}
          shape={tensors.shapes[shape]!}
          values={elements}
          bytes={bytes}
          file=""
        />
      </div>
    );
  }
  const inGroup = view.folded.value && tensors.groups[tensors.group[row]!]!.count > 1;
  return (
    <div
      {...common}
      aria-level={inGroup ? 2 : 1}
      aria-selected={selected}
      onClick={() => {
        view.cursor.value = index;
        go('tensors', tensors.names[row]!);
      }}
    >
      <Cells
        first={
          <>
            <span class={inGroup ? 'twist indent' : 'twist'} />
            <Name name={tensors.names[row]!} companion={tensors.companionOf[row]! >= 0} />
          </>
        }
        dtype={tensors.dtypes[tensors.dtype[row]!]!}
        shape={tensors.shapes[tensors.shape[row]!]!}
        values={tensors.elements[row]!}
        bytes={tensors.bytes[row]!}
        file={countText(tensors.file[row]! + 1)}
      />
    </div>
  );
}

export function TensorTable({ input }: { input: Input }) {
  const view = tensorView(input);
  const scroller = useRef<HTMLDivElement>(null);
  const rows = view.rows.value;
  const list = useVirtualList(scroller, rows.length, rowHeight, rowHeight + 2);
  const cursor = Math.min(view.cursor.value, Math.max(0, rows.length - 1));
  const chosen = route.value.place === 'tensors' ? route.value.detail : '';
  const sorting = view.sorting.value;

  const moveTo = (index: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, index));
    view.cursor.value = next;
    list.show(next);
  };
  // A tensor that is opened from elsewhere is brought into view.
  useEffect(() => {
    if (chosen === '') return;
    const tensor = input.tensors.names.indexOf(chosen);
    if (tensor < 0) return;
    if (view.folded.value && !view.open.value.has(input.tensors.group[tensor]!)) toggle(view, input.tensors.group[tensor]!, true);
    const index = view.rows.value.indexOf(tensor);
    if (index < 0) return;
    view.cursor.value = index;
    requestAnimationFrame(() => list.show(index));
  }, [chosen]);

  const keys = (event: KeyboardEvent) => {
    const row = rows[cursor];
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 400) / rowHeight) - 2);
    const moves: Record<string, number> = { ArrowDown: cursor + 1, ArrowUp: cursor - 1, PageDown: cursor + page, PageUp: cursor - page, Home: 0, End: rows.length - 1 };
    const target = moves[event.key];
    if (target !== undefined) moveTo(target);
    else if (row === undefined) return;
    else if ((event.key === 'Enter' || event.key === ' ') && row >= 0) go('tensors', input.tensors.names[row]!);
    else if ((event.key === 'Enter' || event.key === ' ') && row < 0) toggle(view, -1 - row);
    else if (event.key === 'ArrowRight' && row < 0) toggle(view, -1 - row, true);
    else if (event.key === 'ArrowLeft' && row < 0) toggle(view, -1 - row, false);
    else if (event.key === 'ArrowLeft') {
      const group = rows.indexOf(-1 - input.tensors.group[row]!);
      if (group >= 0) moveTo(group);
    } else if (event.key === 'Escape' && chosen !== '') go('tensors');
    else return;
    event.preventDefault();
  };

  return (
    <div
      ref={scroller}
      class="tensor-table"
      role="grid"
      aria-label="Tensors"
      aria-rowcount={rows.length + 1}
      aria-colcount={columns.length}
      aria-activedescendant={rows.length > 0 ? `tensor-row-${cursor}` : undefined}
      tabIndex={0}
      onKeyDown={keys}
    >
      <div class="row head" role="row" aria-rowindex={1}>
        {columns.map(({ id, title, number }) => (
          <div key={id} role="columnheader" class={`cell-${id}${number ? ' number' : ''}`} aria-sort={sorting.column !== id ? 'none' : sorting.down ? 'descending' : 'ascending'}>
            <button type="button" tabIndex={-1} onClick={() => sortBy(view, id)}>
              {title}
              <span class="sort-mark" aria-hidden="true">
                {sorting.column === id ? (sorting.down ? '↓' : '↑') : ''}
              </span>
            </button>
          </div>
        ))}
      </div>
      <div class="row-space" role="presentation" style={{ height: `${list.height}px` }}>
        {list.items.map((item) => (
          <TableRow
            key={item.index}
            input={input}
            view={view}
            index={item.index}
            top={item.start}
            current={item.index === cursor}
            selected={chosen !== '' && rows[item.index]! >= 0 && input.tensors.names[rows[item.index]!] === chosen}
          />
        ))}
      </div>
    </div>
  );
}
