// Columns and the tree of modules, made from the core's answers in the worker.
import type { InfoDocument, TensorTable } from 'tftf';
import type { ModuleTree, Summary, TensorColumns, TensorGroup } from './messages';

export const shapeText = (dimensions: string): string => (dimensions === '' ? 'scalar' : dimensions.replaceAll(',', ' × '));
const elementsOf = (dimensions: string): number => (dimensions === '' ? 1 : dimensions.split(',').reduce((product, n) => product * Number(n), 1));

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
    names: info.names,
    experts: info.experts,
    notes: info.notes,
  };
}

export function columnsOf(table: TensorTable): TensorColumns {
  const count = table.names.length;
  const patterns = new Map<string, Map<number, number>>();
  const groups: TensorGroup[] = [];
  const sizes = table.shapes.map(elementsOf);
  const columns: TensorColumns = {
    count,
    names: table.names,
    file: Uint32Array.from(table.file),
    dtype: Uint8Array.from(table.dtype),
    dtypes: table.dtypes,
    shape: Uint32Array.from(table.shape),
    shapes: table.shapes.map(shapeText),
    elements: new Float64Array(count),
    bytes: new Float64Array(count),
    begin: Float64Array.from(table.begin),
    layout: Uint8Array.from(table.layout),
    layouts: table.layouts,
    logical: Uint32Array.from(table.logical),
    logicals: table.logicals.map((words) => words.replace(/ (.*)$/, (_, dimensions: string) => ` ${shapeText(dimensions)}`)),
    companionOf: Int32Array.from(table.companion, (row) => row - 1),
    group: new Uint32Array(count),
    groups,
  };
  for (let i = 0; i < count; i += 1) {
    const name = table.names[i]!;
    const dtype = table.dtype[i]!;
    const shape = table.shape[i]!;
    const bytes = table.end[i]! - table.begin[i]!;
    const elements = sizes[shape]!;
    columns.elements[i] = elements;
    columns.bytes[i] = bytes;
    const pattern = foldName(name);
    let kinds = patterns.get(pattern);
    if (!kinds) patterns.set(pattern, (kinds = new Map()));
    const kind = shape * 256 + dtype;
    let group = kinds.get(kind);
    if (group === undefined) {
      group = groups.push({ pattern: name, count: 0, dtype, shape, bytes: 0, elements: 0, first: i }) - 1;
      kinds.set(kind, group);
    }
    const joined = groups[group]!;
    joined.count += 1;
    if (joined.count === 2) joined.pattern = pattern;
    joined.bytes += bytes;
    joined.elements += elements;
    columns.group[i] = group;
  }
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
