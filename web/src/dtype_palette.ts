// One colour per kind of dtype, the same in treemap, bars and table. The hues are those of Okabe and Ito, told apart with
// any colour vision; lightness differs too, and the name always stands beside the colour.
import { isDark } from './theme';

type Colour = readonly [light: string, dark: string];

const kinds: readonly (readonly [RegExp, Colour])[] = [
  [/^BF16$/, ['#3b78b4', '#4b8ac8']],
  [/^F16$/, ['#8cc3e8', '#86bce2']],
  [/^F32$/, ['#2b9a78', '#33a585']],
  [/^F64$/, ['#1d5b4a', '#1f7560']],
  [/^F8_E8M0$/, ['#f0cf7a', '#e3c26e']],
  [/^F8_/, ['#e3a22f', '#d8992c']],
  [/^F[46]/, ['#c8572b', '#cd6234']],
  [/^[UI]8$/, ['#c87fa8', '#c47ca3']],
  [/^[UI](16|32|64)$/, ['#b3a63e', '#a1963c']],
];
const other: Colour = ['#8b8691', '#7d7886'];

export const dtypeColour = (dtype: string): string => (kinds.find(([kind]) => kind.test(dtype))?.[1] ?? other)[isDark.value ? 1 : 0];

// Black or white, whichever reads better on a colour.
export function inkOn(colour: string): string {
  const part = (at: number) => {
    const c = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  const luminance = 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
  return luminance > 0.2 ? '#17151c' : '#ffffff';
}
