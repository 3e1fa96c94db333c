// Two models side by side, by what their headers tell: names, dtypes, shapes.
import type { Input } from './inputs';

export interface ComparisonResult {
  same: number;
  onlyFirst: string[];
  onlySecond: string[];
  changed: { name: string; before: string; after: string }[];
}

const describe = ({ tensors }: Input, i: number): string => `${tensors.dtypes[tensors.dtype[i]!]} ${tensors.shapes[tensors.shape[i]!]}`;

export function compareInputs(first: Input, second: Input): ComparisonResult {
  const places = new Map<string, number>();
  second.tensors.names.forEach((name, i) => places.set(name, i));
  const result: ComparisonResult = { same: 0, onlyFirst: [], onlySecond: [], changed: [] };
  first.tensors.names.forEach((name, i) => {
    const place = places.get(name);
    if (place === undefined) {
      result.onlyFirst.push(name);
      return;
    }
    places.delete(name);
    const before = describe(first, i);
    const after = describe(second, place);
    if (before === after) result.same += 1;
    else result.changed.push({ name, before, after });
  });
  result.onlySecond = [...places.keys()];
  return result;
}
