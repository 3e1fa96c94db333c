import { useMemo, useState } from 'preact/hooks';
import { nameText, plural } from '../format';
import type { Input } from '../inputs';
import { Icon } from '../parts/icons';
import { JsonTree } from '../parts/json_tree';
import { go, route } from '../route';

interface Document {
  name: string;
  text: string;
  value: unknown; // undefined: not JSON
}

function documentsOf(input: Input): Document[] {
  const { metadata } = input.summary;
  const documents: Document[] = [{ name: '__metadata__', text: JSON.stringify(metadata, null, 2), value: metadata }];
  for (const { name, text } of input.sideFiles) {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      // Shown as it is.
    }
    documents.push({ name, text, value });
  }
  return documents;
}

export function MetadataPlace({ input }: { input: Input }) {
  const documents = useMemo(() => documentsOf(input), [input]);
  const [query, setQuery] = useState('');
  const [copied, setCopied] = useState('');
  const chosen = documents.find(({ name }) => name === route.value.detail) ?? documents[0]!;
  const empty = chosen.name === '__metadata__' && Object.keys(input.summary.metadata).length === 0;
  return (
    <div class="metadata">
      <nav class="document-list" aria-label="Documents">
        {documents.map(({ name, text }) => (
          <button key={name} type="button" aria-current={name === chosen.name ? 'true' : undefined} onClick={() => go('metadata', name)}>
            <bdi>{nameText(name, 80)}</bdi>
            <span class="muted">{name === '__metadata__' ? plural(Object.keys(input.summary.metadata).length, 'entry', 'entries') : plural(text.length, 'character')}</span>
          </button>
        ))}
      </nav>
      <section class="document" aria-labelledby="document-title">
        <div class="section-head">
          <h2 id="document-title">
            <bdi>{nameText(chosen.name, 120)}</bdi>
          </h2>
          <input type="search" class="filter" aria-label="Search in the document" placeholder="Search keys and values" value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
          <button
            type="button"
            class="button quiet"
            onClick={() =>
              void navigator.clipboard.writeText(chosen.text).then(
                () => setCopied(chosen.name),
                () => setCopied(''),
              )
            }
          >
            <Icon name={copied === chosen.name ? 'check' : 'copy'} /> {copied === chosen.name ? 'Copied' : 'Copy'}
          </button>
        </div>
        {empty ? (
          <p class="muted">The files carry no metadata.</p>
        ) : chosen.value === undefined ? (
          <pre class="raw">
            <bdi>{nameText(chosen.text, 200_000)}</bdi>
          </pre>
        ) : (
          <JsonTree key={chosen.name} value={chosen.value} query={query.trim().toLowerCase()} />
        )}
      </section>
    </div>
  );
}
