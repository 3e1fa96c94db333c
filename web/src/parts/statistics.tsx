import type { TensorStatistics } from 'tftf';
import { bytesText, countText, shareText, valueText } from '../format';
import { engine, type Input } from '../inputs';
import { FailureNote } from './failure_note';
import { ProgressBar } from './progress_bar';
import { useTask } from './task';

// Larger tensors are read when asked for.
const automaticBytes = 64e6;

function HistogramView({ statistics }: { statistics: TensorStatistics }) {
  const { histogram } = statistics;
  if (!histogram) return null;
  const most = Math.max(1, ...histogram.counts);
  const width = 100 / histogram.counts.length;
  // Square roots: tails stay visible beside the middle.
  return (
    <figure class="histogram">
      <svg viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label={`Histogram from ${valueText(histogram.low)} to ${valueText(histogram.high)}`}>
        {histogram.counts.map((count, i) =>
          count > 0 ? <rect key={i} x={i * width + width * 0.08} width={width * 0.84} y={40 - Math.max(0.6, 40 * Math.sqrt(count / most))} height={40} /> : null,
        )}
      </svg>
      <figcaption>
        <span>{valueText(histogram.low)}</span>
        <span class="muted">values, heights as square roots</span>
        <span>{valueText(histogram.high)}</span>
      </figcaption>
    </figure>
  );
}

function Counted({ name, count, of }: { name: string; count: number; of: number }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {countText(count)} {count > 0 && <span class="muted">{shareText(count, of)}</span>}
      </dd>
    </div>
  );
}

export function Statistics({ input, tensor, logical }: { input: Input; tensor: number; logical: boolean }) {
  const bytes = input.tensors.bytes[tensor]!;
  const { task, start, cancel } = useTask(`${tensor} ${logical}`, bytes <= automaticBytes, (options) => engine.statistics(input.id, tensor, logical, options));
  const real = (value: number | null) => (value === null ? 'none' : valueText(value));
  return (
    <section>
      <h3>Statistics</h3>
      {task.state === 'idle' && (
        <button type="button" class="button" onClick={start}>
          Compute them (reads {bytesText(bytes)})
        </button>
      )}
      {task.state === 'running' && (
        <div class="reserve-statistics">
          <ProgressBar label="Computing statistics" done={task.progress?.done ?? null} total={task.progress?.total ?? 0} />
          <p class="muted">
            Reading {bytesText(bytes)}…{' '}
            <button type="button" class="link" onClick={cancel}>
              Cancel
            </button>
          </p>
        </div>
      )}
      {task.state === 'failed' && <FailureNote failure={task.failure} />}
      {task.state === 'done' && (
        <>
          <HistogramView statistics={task.result} />
          <dl class="facts pairs">
            <div>
              <dt>Minimum</dt>
              <dd>{real(task.result.min)}</dd>
            </div>
            <div>
              <dt>Maximum</dt>
              <dd>{real(task.result.max)}</dd>
            </div>
            <div>
              <dt>Mean</dt>
              <dd>{real(task.result.mean)}</dd>
            </div>
            <div>
              <dt>Deviation</dt>
              <dd>{real(task.result.std)}</dd>
            </div>
            <Counted name="Zeros" count={task.result.zero} of={task.result.count} />
            <Counted name="Subnormal" count={task.result.subnormal} of={task.result.count} />
            <Counted name="NaN" count={task.result.nan} of={task.result.count} />
            <Counted name="Infinite" count={task.result.infinite} of={task.result.count} />
          </dl>
        </>
      )}
    </section>
  );
}
