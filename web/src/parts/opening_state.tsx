import type { Opening } from '../inputs';
import { countText, nameText } from '../format';
import { ProgressBar } from './progress_bar';

export function OpeningState({ opening }: { opening: Opening }) {
  const { progress } = opening;
  const words = progress && progress.total > 1 ? `${countText(progress.done)} of ${countText(progress.total)} files read` : 'Reading headers';
  return (
    <div class="opening-state">
      <p>
        <strong>
          <bdi>{nameText(opening.label, 80)}</bdi>
        </strong>{' '}
        <span class="muted">{words}</span>
      </p>
      <ProgressBar label={`Opening ${opening.label}`} done={progress?.done ?? null} total={progress?.total ?? 0} />
      <button type="button" class="button" onClick={() => opening.abort.abort()}>
        Cancel
      </button>
    </div>
  );
}
