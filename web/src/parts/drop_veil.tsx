import { signal } from '@preact/signals';
import { inputs } from '../inputs';

export const dropping = signal(false);

// Covers the page while files are held over it, and takes them. While they are, no pointer moves: one that does was left behind.
export function DropVeil() {
  if (!dropping.value) return null;
  return (
    <div class="drop-veil" aria-hidden="true" onPointerMove={() => (dropping.value = false)}>
      <p>{inputs.value.length > 0 ? 'Drop to open it beside what is open' : 'Drop to open'}</p>
    </div>
  );
}
