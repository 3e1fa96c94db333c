import type { Input } from '../inputs';
import { countText } from '../format';
import { addressOf, go, placeNames, route, type PlaceName } from '../route';

const titles: Record<PlaceName, string> = { overview: 'Overview', tensors: 'Tensors', check: 'Check', convert: 'Convert', metadata: 'Metadata' };

function note(place: PlaceName, input: Input): string {
  if (place === 'tensors') return countText(input.summary.tensorCount);
  const check = input.check.value;
  if (place !== 'check' || check.state !== 'done') return '';
  const { numErrors, numWarnings } = check.document.issues;
  const count = Number(numErrors) + Number(numWarnings);
  return count === 0 ? '' : countText(count);
}

export function PlaceTabs({ input }: { input: Input }) {
  const here = route.value.place;
  const move = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    const next = placeNames[(placeNames.indexOf(here) + step + placeNames.length) % placeNames.length]!;
    go(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <div class="place-tabs" role="tablist" aria-label="Places" onKeyDown={move}>
      {placeNames.map((place) => (
        <a
          key={place}
          id={`tab-${place}`}
          role="tab"
          aria-label={titles[place]}
          aria-selected={place === here}
          aria-controls="main"
          tabIndex={place === here ? 0 : -1}
          href={addressOf(place)}
          onClick={(event) => (event.preventDefault(), go(place))}
        >
          {titles[place]}
          {note(place, input) && <span class="tab-note">{note(place, input)}</span>}
        </a>
      ))}
    </div>
  );
}
