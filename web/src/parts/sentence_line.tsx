import type { Input } from '../inputs';
import { nameText } from '../format';
import { addressOf, go } from '../route';
import { findingsParts, sentenceParts, type SentencePart } from '../sentence';

function Part({ part }: { part: SentencePart }) {
  const { place } = part;
  const tone = part.tone ? `tone-${part.tone}` : undefined;
  if (!place) return <span class={tone}>{part.text}</span>;
  return (
    <a class={tone} href={addressOf(place, part.detail)} onClick={(event) => (event.preventDefault(), go(place, part.detail))}>
      {part.text}
    </a>
  );
}

export function SentenceLine({ input }: { input: Input }) {
  const check = input.check.value;
  return (
    <div class="sentence-line">
      <p class="input-name">
        <bdi>{nameText(input.label, 120)}</bdi>
      </p>
      <h1 class="sentence">
        {sentenceParts(input.summary, check.state === 'done' ? check.document : null).map((part) => (
          <Part part={part} />
        ))}
        {'. '}
        {check.state === 'running' && <span class="muted">Checking…</span>}
        {check.state === 'failed' && <Part part={{ text: 'The check could not be finished', place: 'check', tone: 'warning' }} />}
        {check.state === 'done' && findingsParts(check.document).map((part) => <Part part={part} />)}
        {check.state !== 'running' && '.'}
      </h1>
    </div>
  );
}
