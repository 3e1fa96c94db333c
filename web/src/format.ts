// Numbers as text: decimal units only, three significant digits, thousands separated.
import type { Count } from 'tftf';

const grouped = new Intl.NumberFormat('en-GB');

export const countText = (count: Count): string => (typeof count === 'number' ? grouped.format(count) : grouped.format(BigInt(count)));

function scaled(value: number, units: string[], step: number): string {
  let unit = 0;
  let shown = value;
  while (shown >= step && unit < units.length - 1) {
    shown /= step;
    unit += 1;
    if (Number(shown.toPrecision(3)) >= step && unit < units.length - 1) {
      shown /= step;
      unit += 1;
    }
  }
  const digits = unit === 0 ? String(shown) : shown >= 100 ? shown.toFixed(0) : shown >= 10 ? shown.toFixed(1) : shown.toFixed(2);
  return units[unit] === '' ? digits : `${digits}\u00a0${units[unit]}`;
}

export const bytesText = (bytes: number): string =>
  bytes === 1 ? '1\u00a0byte' : scaled(bytes, ['bytes', 'kB', 'MB', 'GB', 'TB', 'PB'], 1000);
// For columns of figures: the short form of the smallest unit.
export const bytesCell = (bytes: number): string => scaled(bytes, ['B', 'kB', 'MB', 'GB', 'TB', 'PB'], 1000);
export const exactBytes = (bytes: number): string => `${grouped.format(bytes)}\u00a0${bytes === 1 ? 'byte' : 'bytes'}`;
export const parametersText = (count: number): string => scaled(count, ['', 'k', 'M', 'B', 'T'], 1000);
export const shareText = (part: number, whole: number): string => {
  if (whole === 0) return '0\u00a0%';
  const share = (100 * part) / whole;
  return `${share >= 99.95 ? '100' : share >= 10 ? share.toFixed(0) : share >= 0.01 ? share.toPrecision(2) : '<\u20090.01'}\u00a0%`;
};
export const plural = (count: number, one: string, many = `${one}s`): string => `${grouped.format(count)}\u00a0${count === 1 ? one : many}`;

export function timeText(seconds: number): string {
  if (!Number.isFinite(seconds)) return '';
  if (seconds < 1) return 'less than a second';
  if (seconds < 90) return `${Math.round(seconds)}\u00a0s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes}\u00a0min` : `${(minutes / 60).toFixed(1)}\u00a0h`;
}

// A value of a tensor in few characters, exact where that is short.
export function valueText(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? '+∞' : '−∞';
  if (value === 0) return Object.is(value, -0) ? '−0' : '0';
  const size = Math.abs(value);
  const text = Number.isInteger(value) && size < 1e7 ? String(value) : size >= 1e-4 && size < 1e6 ? String(Number(value.toPrecision(5))) : value.toExponential(3);
  return text.replace('-', '−').replace('e−', 'e−').replace('e+', 'e');
}

// Names come from strangers' files. Control characters and those that turn or hide text are shown as escapes.
const hidden = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
export const nameText = (name: string, limit = 400): string => {
  const cut = name.length > limit ? `${name.slice(0, limit - 40)}…${name.slice(-20)} (${countText(name.length)} characters)` : name;
  return cut.replace(hidden, (c) => `\\u{${c.charCodeAt(0).toString(16).padStart(4, '0').toUpperCase()}}`);
};
