// The filter box: words and globs over names, and fields such as `dtype:bf16 size:>100MB shard:3`.
import type { TensorColumns } from './engine/messages';

type Test = (i: number) => boolean;

const units: Record<string, number> = { '': 1, B: 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, K: 1e3, M: 1e6, G: 1e9, T: 1e12, KIB: 1024, MIB: 1048576, GIB: 1073741824, TIB: 1099511627776 };

function comparison(text: string): ((value: number) => boolean) | null {
  const match = /^(>=|<=|>|<|=)?([\d.]+)([a-z]*)$/i.exec(text);
  const unit = units[match?.[3]?.toUpperCase() ?? '?'];
  if (!match || unit === undefined) return null;
  const bound = Number(match[2]) * unit;
  switch (match[1]) {
    case '>': return (value) => value > bound;
    case '>=': return (value) => value >= bound;
    case '<': return (value) => value < bound;
    case '<=': return (value) => value <= bound;
    default: return (value) => value === bound;
  }
}

export function globPattern(glob: string): RegExp {
  const source = glob.replace(/[.+^${}()|\\]/g, '\\$&').replace(/\*/g, '.*').replace(/\?/g, '.').replace(/\[(?![^\]]+\])/g, '\\[').replace(/\[!/g, '[^');
  return new RegExp(`^${source}$`, 'is');
}

const has = (text: string | undefined, part: string): boolean => text !== undefined && text.toLowerCase().includes(part);

function fieldTest(columns: TensorColumns, field: string, value: string, shards: string[]): Test | null {
  const lower = value.toLowerCase();
  const words = (list: string[], column: ArrayLike<number>): Test => {
    const wanted = list.map((word) => has(word, lower));
    return (i) => wanted[column[i]!] === true;
  };
  switch (field) {
    case 'dtype': return words(columns.dtypes, columns.dtype);
    case 'layout': return words(columns.layouts, columns.layout);
    case 'shape': {
      const plain = lower.replace(/[x*,]/g, '×').replace(/\s/g, '');
      const wanted = columns.shapes.map((shape) => shape.replace(/ /g, '') === plain);
      return (i) => wanted[columns.shape[i]!] === true;
    }
    case 'shard': {
      const number = /^\d+$/.test(value) ? Number(value) - 1 : -1;
      const wanted = shards.map((name, i) => (number >= 0 ? i === number : has(name, lower)));
      return (i) => wanted[columns.file[i]!] === true;
    }
    case 'size':
    case 'values': {
      const test = comparison(value);
      const column = field === 'size' ? columns.bytes : columns.elements;
      return test && ((i) => test(column[i]!));
    }
    case 'rank': {
      const test = comparison(value);
      if (!test) return null;
      const wanted = columns.shapes.map((shape) => test(shape === 'scalar' ? 0 : shape.split('×').length));
      return (i) => wanted[columns.shape[i]!] === true;
    }
    default: return null;
  }
}

export interface Filtered {
  rows: Uint32Array;
  // Parts of the query that mean nothing.
  unknown: string[];
}

export function filterTensors(columns: TensorColumns, query: string, shards: string[], lowered: string[]): Filtered {
  const tests: Test[] = [];
  const unknown: string[] = [];
  for (const token of query.split(/\s+/).filter(Boolean)) {
    const negative = token.length > 1 && token.startsWith('-');
    const word = negative ? token.slice(1) : token;
    const field = /^(dtype|layout|shape|shard|size|values|rank):(.+)$/i.exec(word);
    let test: Test | null;
    if (field) {
      test = fieldTest(columns, field[1]!.toLowerCase(), field[2]!, shards);
      if (!test) unknown.push(token);
    } else if (/[*?]/.test(word)) {
      let pattern: RegExp | null = null;
      try {
        pattern = globPattern(word);
      } catch {
        unknown.push(token);
      }
      test = pattern && ((i) => pattern.test(columns.names[i]!));
    } else {
      const lower = word.toLowerCase();
      test = (i) => lowered[i]!.includes(lower);
    }
    if (test) tests.push(negative ? (i) => !test(i) : test);
  }
  const rows = new Uint32Array(columns.count);
  let kept = 0;
  for (let i = 0; i < columns.count; i += 1) {
    if (tests.every((test) => test(i))) rows[kept++] = i;
  }
  return { rows: rows.subarray(0, kept), unknown };
}
