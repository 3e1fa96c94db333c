import { useMemo, useState } from 'preact/hooks';
import { countText, nameText } from '../format';

type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

const isBranch = (value: Json): value is Json[] | { [key: string]: Json } => typeof value === 'object' && value !== null;

// JSON that is written into a string is unfolded.
function unfolded(value: Json): { value: Json; inString: boolean } {
  if (typeof value !== 'string' || !/^\s*[[{]/.test(value)) return { value, inString: false };
  try {
    const inner = JSON.parse(value) as Json;
    return isBranch(inner) ? { value: inner, inString: true } : { value, inString: false };
  } catch {
    return { value, inString: false };
  }
}

const childrenOf = (value: Json[] | { [key: string]: Json }): [string, Json][] => (Array.isArray(value) ? value.map((child, i) => [String(i), child]) : Object.entries(value));

function matches(key: string, value: Json, query: string): boolean {
  if (key.toLowerCase().includes(query)) return true;
  const { value: inner } = unfolded(value);
  if (isBranch(inner)) return childrenOf(inner).some(([name, child]) => matches(name, child, query));
  return String(inner).toLowerCase().includes(query);
}

function Leaf({ value }: { value: Json }) {
  const kind = value === null ? 'null' : typeof value;
  const text = typeof value === 'string' ? value : String(value);
  return <span class={`json-${kind}`}>{typeof value === 'string' ? <bdi>{nameText(text, 4000)}</bdi> : text}</span>;
}

const shownAtFirst = 200;

function Branch({ entries, query, depth }: { entries: [string, Json][]; query: string; depth: number }) {
  const [all, setAll] = useState(false);
  const found = useMemo(() => (query === '' ? entries : entries.filter(([key, value]) => matches(key, value, query))), [entries, query]);
  const shown = all ? found : found.slice(0, shownAtFirst);
  return (
    <ul class="json">
      {shown.map(([key, value]) => (
        <Entry key={key} name={key} value={value} query={query} depth={depth} />
      ))}
      {found.length > shown.length && (
        <li>
          <button type="button" class="link" onClick={() => setAll(true)}>
            Show all {countText(found.length)}
          </button>
        </li>
      )}
      {found.length === 0 && <li class="muted">{query === '' ? 'empty' : 'nothing found'}</li>}
    </ul>
  );
}

function Entry({ name, value, query, depth }: { name: string; value: Json; query: string; depth: number }) {
  const { value: inner, inString } = unfolded(value);
  const size = isBranch(inner) ? childrenOf(inner).length : 0;
  const [open, setOpen] = useState<boolean | null>(null);
  const shown = open ?? (query !== '' || (depth < 2 && size <= 40));
  const key = (
    <span class="json-key">
      <bdi>{nameText(name, 200)}</bdi>
    </span>
  );
  if (!isBranch(inner)) {
    return (
      <li>
        {key} <Leaf value={inner} />
      </li>
    );
  }
  // What was found by its own key is shown whole.
  const below = query !== '' && name.toLowerCase().includes(query) ? '' : query;
  return (
    <li>
      <button type="button" class="json-fold" aria-expanded={shown} onClick={() => setOpen(!shown)}>
        {key}{' '}
        <span class="muted">
          {Array.isArray(inner) ? `[${countText(size)}]` : `{${countText(size)}}`}
          {inString && ' in a string'}
        </span>
      </button>
      {shown && <Branch entries={childrenOf(inner)} query={below} depth={depth + 1} />}
    </li>
  );
}

export function JsonTree({ value, query }: { value: unknown; query: string }) {
  const json = value as Json;
  return isBranch(json) ? <Branch entries={childrenOf(json)} query={query} depth={0} /> : <Leaf value={json} />;
}
