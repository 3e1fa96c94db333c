// The address keeps the place: #tensors/NAME, #check/RULE, #convert/OPERATION, #metadata/FILE, #overview/MODULE.
import { signal } from '@preact/signals';

export const placeNames = ['overview', 'tensors', 'check', 'convert', 'metadata'] as const;
export type PlaceName = (typeof placeNames)[number];

export interface Route {
  place: PlaceName;
  detail: string;
}

export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#/, '');
  const cut = text.indexOf('/');
  const word = cut < 0 ? text : text.slice(0, cut);
  const place = placeNames.find((name) => name === word) ?? 'overview';
  let detail = '';
  try {
    detail = cut < 0 ? '' : decodeURIComponent(text.slice(cut + 1));
  } catch {
    // An address that is no valid escape sequence has no detail.
  }
  return { place, detail };
}

export const addressOf = (place: PlaceName, detail = ''): string => {
  // Browsers cut very long addresses; such a name is not kept.
  const kept = detail.length > 2000 ? '' : detail.replace(/[\ud800-\udfff]/gu, '\ufffd');
  return kept === '' ? `#${place}` : `#${place}/${encodeURIComponent(kept).replace(/%2F/g, '/')}`;
};

export const route = signal<Route>(parseRoute(location.hash));
addEventListener('hashchange', () => {
  route.value = parseRoute(location.hash);
});

export function go(place: PlaceName, detail = ''): void {
  const address = addressOf(place, detail);
  if (location.hash !== address) location.hash = address;
  route.value = { place, detail };
}

// The same place with another detail, without a new entry in the history.
export function stay(place: PlaceName, detail: string): void {
  history.replaceState(null, '', addressOf(place, detail));
  route.value = { place, detail };
}
