import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { dtypeColour, inkOn } from '../dtype_palette';
import { bytesText, nameText, shareText } from '../format';
import type { Input } from '../inputs';
import { go, route, stay } from '../route';
import { isDark } from '../theme';
import { childrenOf, headHeight, throughOnlyChildren, tilesOf, type Tile } from './treemap_layout';

function pathOf(input: Input, node: number): string {
  const parts: string[] = [];
  for (let at = node; at > 0; at = input.tree.parent[at]!) parts.unshift(input.tree.label[at]!);
  return parts.join('.');
}

function nodeAt(input: Input, children: Map<number, number[]>, path: string): number {
  let at = 0;
  for (const part of path === '' ? [] : path.split('.')) {
    const next = children.get(at)?.find((child) => input.tree.label[child] === part);
    if (next === undefined) return 0;
    at = next;
  }
  return at;
}

// The tensor that a tile stands for: its own, or a module's that is nearly all of it. -1: it is worth a look inside.
function tensorOf(input: Input, children: Map<number, number[]>, node: number): number {
  const at = throughOnlyChildren(node, children);
  const list = children.get(at);
  if (!list) return input.tree.tensor[at]!;
  const { bytes } = input.tree;
  const heaviest = list.reduce((most, child) => (bytes[child]! > bytes[most]! ? child : most));
  return list.every((child) => !children.has(child)) && bytes[heaviest]! >= 0.95 * bytes[at]! ? input.tree.tensor[heaviest]! : -1;
}

interface Painted {
  tiles: Tile[];
  width: number;
  height: number;
}

function paint(canvas: HTMLCanvasElement, input: Input, painted: Painted, marked: Tile | null): void {
  const scale = devicePixelRatio || 1;
  const context = canvas.getContext('2d');
  if (!context) return;
  const pixelWidth = Math.round(painted.width * scale);
  const pixelHeight = Math.round(painted.height * scale);
  if (canvas.width !== pixelWidth || canvas.height !== pixelHeight) {
    canvas.width = pixelWidth;
    canvas.height = pixelHeight;
  }
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, painted.width, painted.height);
  const style = getComputedStyle(canvas);
  const { tree, tensors } = input;
  const text = (words: string, tile: Tile, size: number, weight: number, room: number) => {
    context.font = `${weight} ${size}px ${style.fontFamily}`;
    let shown = nameText(words, 80);
    while (shown.length > 1 && context.measureText(shown).width > room) shown = `${shown.slice(0, -2).trimEnd()}…`;
    if (shown.length > 2 || shown === words) context.fillText(shown, tile.x + 5, tile.y + (tile.leaf ? 5 : 4));
  };
  context.textBaseline = 'top';
  for (const tile of painted.tiles) {
    const colour = tile.node < 0 ? dtypeColour('') : dtypeColour(tensors.dtypes[tree.dtype[tile.node]!] ?? '');
    if (tile.leaf) {
      context.fillStyle = colour;
      context.fillRect(tile.x, tile.y, tile.width, tile.height);
      if (tile.width > 34 && tile.height > 17) {
        context.fillStyle = inkOn(colour);
        text(tile.node < 0 ? 'smaller ones' : tree.label[tile.node]!, tile, 11, 500, tile.width - 9);
        if (tile.height > 34 && tile.width > 52) {
          context.globalAlpha = 0.75;
          context.font = `400 10.5px ${style.fontFamily}`;
          context.fillText(bytesText(tile.bytes), tile.x + 5, tile.y + 19);
          context.globalAlpha = 1;
        }
      }
      continue;
    }
    context.fillStyle = style.getPropertyValue('border-top-color');
    context.fillRect(tile.x, tile.y, tile.width, tile.height);
    if (tile.width >= 46 && tile.height >= 50) {
      context.fillStyle = style.color;
      text(tree.label[tile.node]!, tile, 11, 600, tile.width - 9);
    }
  }
  if (marked) {
    context.lineWidth = 2;
    context.strokeStyle = style.getPropertyValue('outline-color');
    context.strokeRect(marked.x + 1, marked.y + 1, Math.max(1, marked.width - 2), Math.max(1, marked.height - 2));
  }
}

// The tile that lies next in a direction: nearest by distance, straight ones first.
function neighbour(tiles: Tile[], from: Tile, key: string): Tile | null {
  const middle = (tile: Tile): [number, number] => [tile.x + tile.width / 2, tile.y + tile.height / 2];
  const [x, y] = middle(from);
  let best: Tile | null = null;
  let bestScore = Infinity;
  for (const tile of tiles) {
    if (!tile.leaf || tile === from) continue;
    const [tx, ty] = middle(tile);
    const along = key === 'ArrowRight' ? tx - x : key === 'ArrowLeft' ? x - tx : key === 'ArrowDown' ? ty - y : y - ty;
    const across = key === 'ArrowRight' || key === 'ArrowLeft' ? Math.abs(ty - y) : Math.abs(tx - x);
    if (along <= 0.5) continue;
    const score = along + 2.5 * across;
    if (score < bestScore) {
      bestScore = score;
      best = tile;
    }
  }
  return best;
}

export function Treemap({ input }: { input: Input }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [marked, setMarked] = useState<Tile | null>(null);
  const children = useMemo(() => childrenOf(input.tree), [input]);
  const root = nodeAt(input, children, route.value.place === 'overview' ? route.value.detail : '');
  const tiles = useMemo(() => (size.width > 0 ? tilesOf(input.tree, children, root, size.width, size.height) : []), [input, children, root, size]);
  const dark = isDark.value;

  useEffect(() => {
    const element = canvas.current!;
    const measure = () => setSize({ width: Math.round(element.clientWidth), height: Math.round(element.clientHeight) });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  useEffect(() => setMarked(null), [root, size]);
  useEffect(() => {
    const draw = () => canvas.current && paint(canvas.current, input, { tiles, ...size }, marked);
    draw();
    if (document.fonts.status !== 'loaded') void document.fonts.ready.then(draw);
  }, [input, tiles, marked, size, dark]);

  const zoom = (node: number) => go('overview', node === 0 ? '' : pathOf(input, node));
  const enter = (tile: Tile) => {
    if (tile.node < 0) return;
    const tensor = tensorOf(input, children, tile.node);
    if (tensor < 0) zoom(throughOnlyChildren(tile.node, children));
    else go('tensors', input.tensors.names[tensor]!);
  };
  const under = (event: MouseEvent): Tile | null => {
    const box = canvas.current!.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    return tiles.findLast((tile) => x >= tile.x && x < tile.x + tile.width && y >= tile.y && y < tile.y + tile.height && (tile.leaf || y < tile.y + headHeight)) ?? null;
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key.startsWith('Arrow')) {
      event.preventDefault();
      const leaves = tiles.filter((tile) => tile.leaf);
      setMarked((tile) => (tile ? (neighbour(tiles, tile, event.key) ?? tile) : (leaves[0] ?? null)));
    } else if (event.key === 'Enter' && marked) {
      event.preventDefault();
      enter(marked);
    } else if ((event.key === 'Escape' || event.key === 'Backspace') && root > 0) {
      event.preventDefault();
      zoom(Math.max(0, input.tree.parent[root]!));
    }
  };

  const crumbs: number[] = [];
  for (let at = root; at > 0; at = input.tree.parent[at]!) crumbs.unshift(at);
  return (
    <section class="treemap" aria-labelledby="treemap-title">
      <div class="section-head">
        <h2 id="treemap-title">Where the bytes are</h2>
        <nav class="crumbs" aria-label="Module path">
          <button type="button" disabled={root === 0} onClick={() => stay('overview', '')}>
            whole model
          </button>
          {crumbs.map((node) => (
            <button type="button" key={node} disabled={node === root} onClick={() => zoom(node)}>
              {nameText(input.tree.label[node]!, 60)}
            </button>
          ))}
        </nav>
      </div>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-roledescription="treemap"
        aria-label="Bytes by module. Arrow keys move, Enter looks inside, Escape goes up"
        aria-describedby="treemap-readout"
        onMouseMove={(event) => setMarked(under(event))}
        onMouseLeave={() => setMarked(null)}
        onClick={(event) => {
          const tile = under(event);
          if (tile) enter(tile);
        }}
        onKeyDown={keys}
      />
      <p id="treemap-readout" class="readout" aria-live="polite">
        {marked ? <Readout input={input} tile={marked} tensor={marked.node < 0 || !marked.leaf ? -1 : tensorOf(input, children, marked.node)} /> : <span class="muted">Point at a tile, or move with the arrow keys. Click or Enter looks inside.</span>}
      </p>
    </section>
  );
}

function Readout({ input, tile, tensor }: { input: Input; tile: Tile; tensor: number }) {
  const { tensors } = input;
  return (
    <>
      <bdi class="name">{tile.node < 0 ? 'Smaller ones together' : nameText(tensor >= 0 ? tensors.names[tensor]! : pathOf(input, tile.node), 120)}</bdi>
      {tensor >= 0 && (
        <span>
          {tensors.dtypes[tensors.dtype[tensor]!]} {tensors.shapes[tensors.shape[tensor]!]}
        </span>
      )}
      <span>{bytesText(tile.bytes)}</span>
      <span>{shareText(tile.bytes, input.tree.bytes[0]!)}</span>
    </>
  );
}
