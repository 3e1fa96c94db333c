// Columns and the tree of modules, made from the core's `info` in the worker.
import type { Count, InfoDocument } from 'tftf';
import type { ModuleTree, Summary, TensorColumns, TensorGroup } from './messages';

class Words {
  readonly list: string[] = [];
  private readonly places = new Map<string, number>();
  constructor(...first: string[]) {
    for (const word of first) this.place(word);
  }
  place(word: string): number {
    const found = this.places.get(word);
    if (found !== undefined) return found;
    this.places.set(word, this.list.length);
    return this.list.push(word) - 1;
  }
}

export const shapeText = (shape: Count[]): string => (shape.length === 0 ? 'scalar' : shape.join(' × '));

const underscored = /^(lora_|lycoris_|w_a_|w_b_|Hunyuan_)/;

// As the core folds names: numbers that are whole components become '#'.
export function foldName(name: string): string {
  const dots = /(^|[.:])\d+(?=[.:]|$)/g;
  if (!underscored.test(name)) return name.replace(dots, '$1#');
  const dot = name.indexOf('.');
  const head = dot < 0 ? name : name.slice(0, dot);
  return head.replace(/(^|[_:])\d+(?=[_:.]|$)/g, '$1#') + (dot < 0 ? '' : name.slice(dot).replace(dots, '$1#'));
}

export function summaryOf(info: InfoDocument): Summary {
  return {
    input: info.input,
    kind: info.kind,
    family: info.family,
    files: info.files,
    tensorCount: Number(info.tensor_count),
    dataBytes: Number(info.data_bytes),
    storedElements: Number(info.stored_elements),
    logicalParameters: info.logical_parameters === null ? null : Number(info.logical_parameters),
    dtypes: info.dtypes,
    layouts: info.layouts,
    metadata: info.metadata,
    config: info.config,
    adapter: info.adapter,
    index: info.index,
    notes: info.notes,
  };
}

export function columnsOf(info: InfoDocument): TensorColumns {
  const rows = info.tensors ?? [];
  const count = rows.length;
  const dtypes = new Words();
  const shapes = new Words();
  const layouts = new Words('');
  const logicals = new Words('');
  const keys = new Map<string, number>();
  const groups: TensorGroup[] = [];
  const columns: TensorColumns = {
    count,
    names: rows.map((row) => row.name),
    file: new Uint32Array(count),
    dtype: new Uint8Array(count),
    dtypes: dtypes.list,
    shape: new Uint32Array(count),
    shapes: shapes.list,
    elements: new Float64Array(count),
    bytes: new Float64Array(count),
    begin: new Float64Array(count),
    layout: new Uint8Array(count),
    layouts: layouts.list,
    logical: new Uint32Array(count),
    logicals: logicals.list,
    companionOf: new Int32Array(count).fill(-1),
    group: new Uint32Array(count),
    groups,
  };
  const places = new Map<string, number>();
  rows.forEach((row, i) => places.set(row.name, i));
  rows.forEach((row, i) => {
    const shape = shapeText(row.shape);
    const bytes = Number(row.offsets[1]) - Number(row.offsets[0]);
    const elements = row.shape.reduce<number>((product, n) => product * Number(n), 1);
    columns.file[i] = row.file;
    columns.dtype[i] = dtypes.place(row.dtype);
    columns.shape[i] = shapes.place(shape);
    columns.elements[i] = elements;
    columns.bytes[i] = bytes;
    columns.begin[i] = Number(row.offsets[0]);
    columns.layout[i] = layouts.place(row.layout ?? '');
    if (row.logical) columns.logical[i] = logicals.place(`${row.logical.dtype} ${row.logical.shape ? shapeText(row.logical.shape) : ''}`.trim());
    if (row.companion_of !== null) columns.companionOf[i] = places.get(row.companion_of) ?? -1;
    const pattern = foldName(row.name);
    const key = `${pattern}\0${row.dtype}\0${shape}`;
    let group = keys.get(key);
    if (group === undefined) {
      group = groups.push({ pattern: row.name, count: 0, dtype: columns.dtype[i]!, shape: columns.shape[i]!, bytes: 0, elements: 0, first: i }) - 1;
      keys.set(key, group);
    }
    const joined = groups[group]!;
    joined.count += 1;
    if (joined.count === 2) joined.pattern = pattern;
    joined.bytes += bytes;
    joined.elements += elements;
    columns.group[i] = group;
  });
  return columns;
}

interface Building {
  label: string;
  parent: number;
  children: Map<string, Building>;
  bytes: number;
  byDtype: Map<number, number>;
  tensor: number;
}

const building = (label: string): Building => ({ label, parent: -1, children: new Map(), bytes: 0, byDtype: new Map(), tensor: -1 });

export function moduleTreeOf(columns: TensorColumns): ModuleTree {
  const root = building('');
  let nodes = 1;
  for (let i = 0; i < columns.count; i += 1) {
    const bytes = columns.bytes[i]!;
    const dtype = columns.dtype[i]!;
    // Beyond sixty-four levels a name is no module path any more.
    const parts = columns.names[i]!.split(/[./]/, 64);
    let node = root;
    for (let level = 0; ; level += 1) {
      node.bytes += bytes;
      node.byDtype.set(dtype, (node.byDtype.get(dtype) ?? 0) + bytes);
      const part = parts[level];
      if (part === undefined) break;
      let child = node.children.get(part);
      if (!child) {
        child = building(part);
        node.children.set(part, child);
        nodes += 1;
      }
      node = child;
    }
    if (node.tensor < 0) node.tensor = i;
  }
  const tree: ModuleTree = {
    parent: new Int32Array(nodes).fill(-1),
    label: [],
    bytes: new Float64Array(nodes),
    dtype: new Uint8Array(nodes),
    tensor: new Int32Array(nodes).fill(-1),
  };
  const queue: { node: Building; parent: number }[] = [{ node: root, parent: -1 }];
  for (let at = 0; at < queue.length; at += 1) {
    const { node, parent } = queue[at]!;
    tree.parent[at] = parent;
    tree.label.push(node.label);
    tree.bytes[at] = node.bytes;
    tree.dtype[at] = [...node.byDtype].reduce((best, entry) => (entry[1] > best[1] ? entry : best), [0, -1])[0];
    tree.tensor[at] = node.children.size === 0 ? node.tensor : -1;
    for (const child of node.children.values()) queue.push({ node: child, parent: at });
  }
  return tree;
}
