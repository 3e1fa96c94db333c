import { currentId, type Input } from '../inputs';
import { nameText } from '../format';
import { addressOf, go } from '../route';
import { findingsParts, sentenceParts, type SentencePart } from '../sentence';

function Part({ part, input }: { part: SentencePart; input: Input }) {
  const { place } = part;
  const tone = part.tone ? `tone-${part.tone}` : undefined;
  if (!place) return <span class={tone}>{part.text}</span>;
  return (
    <a class={tone} href={addressOf(place, part.detail)} onClick={(event) => (event.preventDefault(), (currentId.value = input.id), go(place, part.detail))}>
      {part.text}
    </a>
  );
}

// `heading`: it stands for the page; else for a part of it.
export function SentenceLine({ input, heading = false }: { input: Input; heading?: boolean }) {
  const check = input.check.value;
  const Heading = heading ? 'h1' : 'h3';
  return (
    <div class="sentence-line">
      <p class="input-name">
        <bdi>{nameText(input.label, 120)}</bdi>
      </p>
      <Heading class="sentence">
        {sentenceParts(input.summary, check.state === 'done' ? check.document : null).map((part) => (
          <Part part={part} input={input} />
        ))}
        {'. '}
        {check.state === 'running' && <span class="muted">Checking…</span>}
        {check.state === 'failed' && <Part part={{ text: 'The check could not be finished', place: 'check', tone: 'warning' }} input={input} />}
        {check.state === 'done' && findingsParts(check.document).map((part) => <Part part={part} input={input} />)}
        {check.state !== 'running' && '.'}
      </Heading>
    </div>
  );
}
