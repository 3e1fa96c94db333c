import { signal } from '@preact/signals';
import { inputs } from '../inputs';

export const dropping = signal(false);

// Covers the page while files are held over it.
export function DropVeil() {
  if (!dropping.value) return null;
  return (
    <div class="drop-veil" aria-hidden="true">
      <p>{inputs.value.length > 0 ? 'Drop to open it beside what is open' : 'Drop to open'}</p>
    </div>
  );
}
