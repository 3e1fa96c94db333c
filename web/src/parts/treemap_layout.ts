// Tiles of the treemap: the part of the module tree below one node, as deep as can be seen.
import { hierarchy, treemap, treemapSquarify } from 'd3-hierarchy';
import type { ModuleTree } from '../engine/messages';

export interface Tile {
  node: number; // -1: what is too small to be drawn, together
  parent: number;
  depth: number;
  leaf: boolean;
  bytes: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

interface Branch {
  node: number;
  bytes: number;
  children?: Branch[];
}

const natural = new Intl.Collator('en', { numeric: true });

export const headHeight = 18;
const mostChildren = 400;
// A module is opened when it, and on average each of its parts, has so many square pixels.
const smallestOpen = 3600;
const smallestChild = 240;
const largeArea = 60_000;

export function childrenOf(tree: ModuleTree): Map<number, number[]> {
  const children = new Map<number, number[]>();
  for (let i = 1; i < tree.parent.length; i += 1) {
    const parent = tree.parent[i]!;
    const list = children.get(parent);
    if (list) list.push(i);
    else children.set(parent, [i]);
  }
  return children;
}

// `model` → `layers` → … : a chain of only children is one level.
export function throughOnlyChildren(node: number, children: Map<number, number[]>): number {
  let at = node;
  for (let list = children.get(at); list?.length === 1; list = children.get(at)) at = list[0]!;
  return at;
}

export function tilesOf(tree: ModuleTree, children: Map<number, number[]>, root: number, width: number, height: number): Tile[] {
  const pixels = (width * height) / Math.max(1, tree.bytes[root]!);
  const opens = (bytes: number, area: number, list: number[]): boolean => {
    if (area < smallestOpen || area < list.length * smallestChild) return false;
    // A weight with small companions stands for its module, and so does a module that is nearly all of another.
    const heaviest = list.reduce((most, child) => Math.max(most, tree.bytes[child]!), 0);
    return heaviest < 0.95 * bytes || area >= largeArea;
  };
  const branch = (node: number, depth: number): Branch => {
    const bytes = tree.bytes[node]!;
    const list = children.get(throughOnlyChildren(node, children));
    if (!list || (depth > 0 && !opens(bytes, bytes * pixels, list))) return { node, bytes };
    const sorted = [...list].sort((a, b) => tree.bytes[b]! - tree.bytes[a]! || natural.compare(tree.label[a]!, tree.label[b]!));
    const shown = sorted.slice(0, mostChildren).filter((child) => tree.bytes[child]! > 0);
    const rest = sorted.slice(shown.length).reduce((sum, child) => sum + tree.bytes[child]!, 0);
    const branches = shown.map((child) => branch(child, depth + 1));
    if (rest > 0) branches.push({ node: -1, bytes: rest });
    return branches.length === 0 ? { node, bytes } : { node, bytes, children: branches };
  };
  const top = hierarchy(branch(root, 0)).sum((data) => (data.children ? 0 : data.bytes));
  const placed = treemap<Branch>()
    .tile(treemapSquarify.ratio(1.4))
    .size([width, height])
    .paddingOuter((node) => (node.depth === 0 ? 0 : 2))
    .paddingTop((node) => (node.depth === 0 || node.x1 - node.x0 < 46 || node.y1 - node.y0 < 50 ? (node.depth === 0 ? 0 : 2) : headHeight))
    .paddingInner((node) => (node.depth === 0 ? 3 : 1))
    .round(true)(top);
  return placed
    .descendants()
    .filter((node) => node.depth > 0)
    .map((node) => ({
      node: node.data.node,
      parent: node.parent?.data.node ?? root,
      depth: node.depth,
      leaf: !node.children,
      bytes: node.data.bytes,
      x: node.x0,
      y: node.y0,
      width: node.x1 - node.x0,
      height: node.y1 - node.y0,
    }));
}
