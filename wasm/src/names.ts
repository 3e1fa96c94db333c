const MOST_SHOWN = 120;

function isInvisible(c: number): boolean {
  return (c >= 0x200b && c <= 0x200f) || (c >= 0x202a && c <= 0x202e) || (c >= 0x2060 && c <= 0x2064)
    || (c >= 0x2066 && c <= 0x2069) || c === 0xfeff || c === 0xad;
}

/** A name for messages, as the core writes it: in quotes, what cannot be seen as \u{XXXX}, long ones cut. */
export function quoteName(name: string): string {
  const points = [...name];
  const shown = points.slice(0, MOST_SHOWN).map(point => {
    const c = point.codePointAt(0)!;
    if (point === '"' || point === '\\') return `\\${point}`;
    const plain = c >= 0x20 && !(c >= 0x7f && c <= 0x9f) && !isInvisible(c) && !(c >= 0xd800 && c <= 0xdfff);
    return plain ? point : `\\u{${c.toString(16).toUpperCase().padStart(4, '0')}}`;
  }).join('');
  return points.length <= MOST_SHOWN ? `"${shown}"` : `"${shown}…" (${points.length} characters)`;
}
