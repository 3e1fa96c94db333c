// `done` null: nobody knows how much is left.
export function ProgressBar({ label, done, total }: { label: string; done: number | null; total: number }) {
  const known = done !== null && total > 0;
  const percent = known ? Math.min(100, (100 * done) / total) : 0;
  return (
    <div
      class={known ? 'progress' : 'progress unknown'}
      role="progressbar"
      aria-label={label}
      {...(known && { 'aria-valuenow': Math.round(percent), 'aria-valuemin': 0, 'aria-valuemax': 100 })}
    >
      <div style={{ width: known ? `${percent}%` : undefined }} />
    </div>
  );
}
