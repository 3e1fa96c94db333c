import type { Severity } from 'tftf';

export const severityWords = ['error', 'warning', 'info', 'hint'] as const;

// Severity has shape as well as colour: an octagon, a triangle, a disc, a diamond.
const shapes = [
  <path d="M5 1h6l4 4v6l-4 4H5l-4-4V5z" />,
  <path d="M8 1.2 15.4 14.6H.6z" />,
  <circle cx="8" cy="8" r="6.6" />,
  <path d="M8 1.2 14.8 8 8 14.8 1.2 8z" />,
];
const marks = [
  <path d="m5.4 5.4 5.2 5.2m0-5.2-5.2 5.2" />,
  <path d="M8 6v4m0 1.9v.1" />,
  <path d="M8 7.4v4m0-6.8v.1" />,
  <path d="M8 5.4v3.2m0 2v.1" />,
];

export function SeverityIcon({ severity }: { severity: Severity }) {
  return (
    <svg class={`severity severity-${severityWords[severity]}`} viewBox="0 0 16 16" width="14" height="14" role="img" aria-label={severityWords[severity]}>
      <g fill="currentColor">{shapes[severity]}</g>
      <g class="mark" fill="none" stroke-width="1.8" stroke-linecap="round">
        {marks[severity]}
      </g>
    </svg>
  );
}

export function Icon({ name }: { name: 'sun' | 'moon' | 'auto' | 'close' | 'plus' | 'arrow' | 'down' | 'lock' | 'copy' | 'check' | 'disk' | 'offline' }) {
  const paths: Record<typeof name, string> = {
    sun: 'M8 4.8a3.2 3.2 0 1 0 0 6.4 3.2 3.2 0 0 0 0-6.4M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8 13 13M13 3l-1.2 1.2M4.2 11.8 3 13',
    moon: 'M13.6 9.8A6 6 0 0 1 6.2 2.4a6 6 0 1 0 7.4 7.4z',
    auto: 'M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8M8 2v12',
    close: 'm4 4 8 8m0-8-8 8',
    plus: 'M8 3v10M3 8h10',
    arrow: 'm6 3.5 4.5 4.5L6 12.5',
    down: 'M8 2.5v8m-3.5-3L8 11l3.5-3.5M3 13.5h10',
    lock: 'M3.5 7.5h9v6h-9zM5.2 7.5V5a2.8 2.8 0 0 1 5.6 0v2.5',
    copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
    check: 'm3 8.4 3.3 3.3L13 4.8',
    disk: 'M2.5 4.5C2.5 3 5 2.2 8 2.2s5.5.8 5.5 2.3S11 6.8 8 6.8 2.5 6 2.5 4.5m0 0v7c0 1.5 2.5 2.3 5.5 2.3s5.5-.8 5.5-2.3v-7M2.5 8c0 1.5 2.5 2.3 5.5 2.3s5.5-.8 5.5-2.3',
    offline: 'M2.5 9.5h11M2.5 9.5 4 3h8l1.5 6.5v3.5h-11zM11 11.3v.1',
  };
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round">
      <path d={paths[name]} />
    </svg>
  );
}
