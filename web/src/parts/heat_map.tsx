import { useEffect, useRef, useState } from 'preact/hooks';
import type { HeatMap } from 'tftf';
import { countText, valueText } from '../format';
import { engine, type Input } from '../inputs';
import { isDark } from '../theme';
import { FailureNote } from './failure_note';
import { useTask } from './task';

interface Part {
  rowBegin?: number;
  rowEnd?: number;
  columnBegin?: number;
  columnEnd?: number;
}

const most = 96;

// Blue below zero, orange above, the background at zero; what is not finite is magenta.
function colourOf(share: number, dark: boolean): [number, number, number] {
  const zero: [number, number, number] = dark ? [30, 28, 35] : [250, 249, 247];
  const end: [number, number, number] = share < 0 ? (dark ? [102, 176, 240] : [31, 98, 165]) : dark ? [244, 164, 66] : [196, 92, 12];
  const amount = Math.min(1, Math.abs(share)) ** 0.75;
  return [0, 1, 2].map((i) => Math.round(zero[i]! + (end[i]! - zero[i]!) * amount)) as [number, number, number];
}

function paint(canvas: HTMLCanvasElement, map: HeatMap, dark: boolean): void {
  canvas.width = map.width;
  canvas.height = map.height;
  const context = canvas.getContext('2d');
  if (!context) return;
  const image = context.createImageData(map.width, map.height);
  let bound = 0;
  for (const value of map.mean) if (Number.isFinite(value)) bound = Math.max(bound, Math.abs(value));
  for (let i = 0; i < map.mean.length; i += 1) {
    const [r, g, b] = map.nonFinite[i] ? [214, 40, 150] : colourOf(bound > 0 ? map.mean[i]! / bound : 0, dark);
    image.data.set([r, g, b, 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
}

export function HeatMapView({ input, tensor, logical }: { input: Input; tensor: number; logical: boolean }) {
  const [part, setPart] = useState<Part>({});
  const [at, setAt] = useState<number | null>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const key = `${tensor} ${logical} ${JSON.stringify(part)}`;
  const { task } = useTask(key, true, (options) => engine.heatMap(input.id, tensor, logical, { ...part, height: most, width: most }, options));
  const map = task.state === 'done' ? task.result : null;
  const dark = isDark.value;
  useEffect(() => {
    if (map && canvas.current) paint(canvas.current, map, dark);
  }, [map, dark]);

  const rowBegin = part.rowBegin ?? 0;
  const columnBegin = part.columnBegin ?? 0;
  const zoomed = part.rowEnd !== undefined;
  const zoomIn = (cell: number) => {
    if (!map || (map.cellRows === 1 && map.cellColumns === 1)) return;
    const row = Math.floor(cell / map.width);
    const column = cell % map.width;
    const around = (middle: number, cells: number, size: number, begin: number): [number, number] => {
      const span = Math.max(8, Math.floor(cells / 4));
      const first = Math.max(0, Math.min(middle - (span >> 1), cells - span));
      return [begin + first * size, begin + Math.min(cells, first + span) * size];
    };
    const rows = around(row, map.height, map.cellRows, rowBegin);
    const columns = around(column, map.width, map.cellColumns, columnBegin);
    setPart({ rowBegin: rows[0], rowEnd: rows[1], columnBegin: columns[0], columnEnd: columns[1] });
    setAt(null);
  };
  const cellUnder = (event: MouseEvent): number | null => {
    if (!map) return null;
    const box = canvas.current!.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * map.width);
    const row = Math.floor(((event.clientY - box.top) / box.height) * map.height);
    return row < 0 || column < 0 || row >= map.height || column >= map.width ? null : row * map.width + column;
  };
  const keys = (event: KeyboardEvent) => {
    if (!map) return;
    const cell = at ?? 0;
    const row = Math.floor(cell / map.width);
    const column = cell % map.width;
    const next: Record<string, [number, number]> = { ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1] };
    const target = next[event.key];
    if (target) setAt(Math.max(0, Math.min(map.height - 1, target[0])) * map.width + Math.max(0, Math.min(map.width - 1, target[1])));
    else if (event.key === 'Enter') zoomIn(cell);
    else if (event.key === 'Backspace' && zoomed) setPart({});
    else return;
    event.preventDefault();
  };
  const range = (begin: number, size: number) => (size === 1 ? countText(begin) : `${countText(begin)} to ${countText(begin + size - 1)}`);
  return (
    <section>
      <h3>
        Values
        {zoomed && (
          <button type="button" class="link" onClick={() => setPart({})}>
            whole tensor
          </button>
        )}
      </h3>
      <div class="heat-map">
        <canvas
          ref={canvas}
          tabIndex={0}
          role="application"
          aria-roledescription="heat map"
          aria-label="Values by row and column. Arrow keys move, Enter zooms in, Backspace shows the whole"
          onMouseMove={(event) => setAt(cellUnder(event))}
          onMouseLeave={() => setAt(null)}
          onClick={(event) => {
            const cell = cellUnder(event);
            if (cell !== null) zoomIn(cell);
          }}
          onKeyDown={keys}
        />
      </div>
      {task.state === 'failed' && <FailureNote failure={task.failure} />}
      <p class="readout small" aria-live="polite">
        {map && at !== null ? (
          <>
            <span>
              row {range(rowBegin + Math.floor(at / map.width) * map.cellRows, map.cellRows)}, column {range(columnBegin + (at % map.width) * map.cellColumns, map.cellColumns)}
            </span>
            <span>{map.cellRows * map.cellColumns > 1 ? `mean ${valueText(map.mean[at]!)}, ${valueText(map.low[at]!)} to ${valueText(map.high[at]!)}` : valueText(map.mean[at]!)}</span>
          </>
        ) : (
          <span class="muted">{map ? `${map.sampled ? 'Rows sampled. ' : ''}Blue below zero, orange above, magenta not finite.` : 'Reading…'}</span>
        )}
      </p>
    </section>
  );
}
