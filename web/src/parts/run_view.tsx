import type { Progress } from 'tftf';
import type { Conversion, RunState } from '../conversion';
import { bytesText, nameText, plural, timeText } from '../format';
import { currentId, inputs } from '../inputs';
import { go } from '../route';
import { saveBlob } from '../saving';
import { ComparisonOf } from './comparison';
import { ConfigChanges } from './config_changes';
import { Icon } from './icons';
import { TensorAccount } from './plan_account';
import { ProgressBar } from './progress_bar';
import { SentenceLine } from './sentence_line';

type Running = Extract<RunState, { state: 'running' }>;
type Done = Extract<RunState, { state: 'done' }>;

const stageWords: Partial<Record<Progress['stage'], string>> = { planning: 'Preparing', measuring: 'Measuring', writing: 'Writing', finishing: 'The browser is checking and moving the files' };

function RunningView({ conversion, run }: { conversion: Conversion; run: Running }) {
  const { progress, rate, paused } = run;
  const inBytes = progress?.stage === 'writing' || progress?.stage === 'measuring';
  const finishing = progress?.stage === 'finishing';
  const left = progress && rate > 0 && progress.stage === 'writing' ? (progress.total - progress.done) / rate : NaN;
  return (
    <section class="run" aria-labelledby="run-title">
      <h2 id="run-title">{paused ? 'Paused' : ((progress && stageWords[progress.stage]) ?? 'Starting')}</h2>
      <ProgressBar label="Converting" done={finishing ? null : (progress?.done ?? null)} total={progress?.total ?? 0} />
      <p class="run-figures">
        {inBytes && progress && (
          <>
            <span>
              {bytesText(progress.done)} of {bytesText(progress.total)}
            </span>
            {rate > 0 && !paused && <span>{bytesText(rate)} per second</span>}
            {Number.isFinite(left) && !paused && <span>{timeText(left)} left</span>}
          </>
        )}
        {finishing && <span>This can take as long as the writing did. Please leave the page open.</span>}
      </p>
      <p class="run-item muted">
        <bdi>{progress?.item ? nameText(progress.item, 160) : '\u00a0'}</bdi>
      </p>
      <div class="run-buttons">
        <button type="button" class="button" disabled={finishing} onClick={() => conversion.pause(!paused)}>
          {paused ? 'Go on' : 'Pause'}
        </button>
        <button type="button" class="button" onClick={() => conversion.cancel()}>
          Cancel
        </button>
      </div>
    </section>
  );
}

// Where the time went; only what took long enough to have a rate.
function TimesSpent({ view }: { view: Done['view'] }) {
  const parts: [string, number, number][] = [
    ['reading', view.elapsed.read, view.bytesRead],
    ['computing', view.elapsed.compute, view.bytesWritten],
    ['writing', view.elapsed.write, view.bytesWritten],
    ['moving into place', view.elapsed.finish, 0],
  ];
  return (
    <p class="run-times muted">
      Time went to{' '}
      {parts
        .filter(([, milliseconds]) => milliseconds >= 10)
        .map(([word, milliseconds, bytes]) => {
          const rate = bytes > 0 ? `, ${bytesText((bytes / milliseconds) * 1000)} per second` : '';
          return `${word} (${timeText(milliseconds / 1000)}${rate})`;
        })
        .join(', ')}
      .
    </p>
  );
}

function DoneView({ conversion, run }: { conversion: Conversion; run: Done }) {
  const { view, seconds, result, stored, files } = run;
  return (
    <section class="run" aria-labelledby="run-title">
      <h2 id="run-title">Written</h2>
      <p>
        {plural(view.account.files.length, 'weight file')}, {bytesText(view.bytesWritten)} in {timeText(seconds)}
        {seconds >= 1 && <span class="muted">, {bytesText(view.bytesWritten / seconds)} per second</span>}.
      </p>
      {seconds >= 1 && <TimesSpent view={view} />}
      {stored !== null && (
        <div class="downloads">
          <p>It lies in this browser’s storage. Download it, then delete it there.</p>
          <ul>
            {files.map(({ path, file }) => (
              <li key={path}>
                <button type="button" class="button" onClick={() => saveBlob(path.replace(/^.*\//, ''), file)}>
                  <Icon name="down" /> <bdi>{nameText(path, 90)}</bdi> <span class="muted">{bytesText(file.size)}</span>
                </button>
              </li>
            ))}
          </ul>
          <button type="button" class="button quiet" onClick={() => void conversion.removeStored()}>
            Delete it from the browser’s storage
          </button>
        </div>
      )}
      {result && inputs.value.includes(result) && (
        <div class="result">
          <SentenceLine input={result} />
          <ComparisonOf from={conversion.input} to={result} />
          <button
            type="button"
            class="button primary"
            onClick={() => {
              currentId.value = result.id;
              go('overview');
            }}
          >
            Look at the result
          </button>
        </div>
      )}
      <h3>Account</h3>
      <TensorAccount account={view.account} />
      <ConfigChanges account={view.account} />
      {view.account.warnings.map((warning) => (
        <p key={warning} class="tone-warning">
          <bdi>{nameText(warning, 600)}</bdi>
        </p>
      ))}
      <button
        type="button"
        class="button"
        onClick={() => {
          conversion.run.value = { state: 'none' };
          conversion.replan(0);
        }}
      >
        Convert something else
      </button>
    </section>
  );
}

export function RunView({ conversion, run }: { conversion: Conversion; run: Running | Done }) {
  return run.state === 'running' ? <RunningView conversion={conversion} run={run} /> : <DoneView conversion={conversion} run={run} />;
}
