import { useState } from 'preact/hooks';
import type { ComparisonDocument, PairStatus, TensorPair } from 'tftf';
import { bytesText, countText, nameText, plural, valueText } from '../format';
import { currentId, engine, inputs, type Input } from '../inputs';
import { go } from '../route';
import { FailureNote } from './failure_note';
import { ProgressBar } from './progress_bar';
import { useTask } from './task';

const shownAtFirst = 12;

const statusWords: Record<PairStatus, string> = {
  same: 'the same',
  equal_values: 'equal in value',
  close: 'close',
  different: 'different',
  dtype: 'of another dtype',
  shape: 'of another shape',
  only_left: 'gone',
  only_right: 'new',
  not_comparable: 'not comparable',
};
const order = Object.keys(statusWords) as PairStatus[];

const sideText = (side: TensorPair['left']): string => (side ? `${side.layout ?? side.dtype} ${side.shape.length === 0 ? 'scalar' : side.shape.join(' × ')}` : '');

function Pair({ pair, to }: { pair: TensorPair; to: Input }) {
  const { left, right, distance, reason } = pair;
  const before = sideText(left);
  const after = sideText(right);
  return (
    <li>
      {right ? (
        <button type="button" class="link" onClick={() => ((currentId.value = to.id), go('tensors', pair.name))}>
          <bdi>{nameText(pair.name, 160)}</bdi>
        </button>
      ) : (
        <bdi>{nameText(pair.name, 160)}</bdi>
      )}{' '}
      <span class="muted">
        {left && right && before !== after ? `${before} → ${after}` : before || after}
        {distance && Number(distance.differing) > 0 && `, ${plural(Number(distance.differing), 'value differs', 'values differ')}, by at most ${valueText(Number(distance.max_abs))}`}
        {reason && `: ${nameText(reason, 200)}`}
      </span>
    </li>
  );
}

function StatusList({ status, pairs, to }: { status: PairStatus; pairs: TensorPair[]; to: Input }) {
  const [all, setAll] = useState(false);
  const shown = all ? pairs.slice(0, 2000) : pairs.slice(0, shownAtFirst);
  return (
    <details>
      <summary>
        <span class="status">{statusWords[status]}</span> <span class="times">{countText(pairs.length)}</span>
      </summary>
      <ul class="names">
        {shown.map((pair) => (
          <Pair key={pair.name} pair={pair} to={to} />
        ))}
        {pairs.length > shown.length && (
          <li>
            <button type="button" class="link" onClick={() => setAll(true)}>
              Show more
            </button>
          </li>
        )}
      </ul>
    </details>
  );
}

function Result({ document, to }: { document: ComparisonDocument; to: Input }) {
  const found = order.filter((status) => Number(document.summary[status] ?? 0) > 0);
  return (
    <>
      <p class="comparison-summary">
        {plural(Number(document.tensor_count), 'tensor')}: {found.map((status) => `${countText(document.summary[status])} ${statusWords[status]}`).join(', ')}.
      </p>
      {found
        .map((status) => ({ status, pairs: document.tensors.filter((pair) => pair.status === status) }))
        .filter(({ pairs }) => pairs.length > 0)
        .map(({ status, pairs }) => (
          <StatusList key={status} status={status} pairs={pairs} to={to} />
        ))}
      {document.notes.map((note) => (
        <p key={note} class="muted">
          <bdi>{nameText(note, 400)}</bdi>
        </p>
      ))}
    </>
  );
}

// What became of one model in another: names, dtypes and shapes at once, values when asked for.
export function ComparisonOf({ from, to }: { from: Input; to: Input }) {
  const [values, setValues] = useState(false);
  const { task, start, cancel } = useTask(`${from.id} ${to.id} ${values}`, true, (options) => engine.compare(from.id, to.id, values, options));
  return (
    <div class="comparison">
      <h3>
        Against <bdi>{nameText(from.label, 80)}</bdi>
      </h3>
      {task.state === 'running' && (
        <>
          <ProgressBar label="Comparing" done={task.progress?.done ?? null} total={task.progress?.total ?? 0} />
          <p class="muted">
            Comparing…{' '}
            <button type="button" class="link" onClick={cancel}>
              Cancel
            </button>
          </p>
        </>
      )}
      {task.state === 'idle' && (
        <button type="button" class="button" onClick={start}>
          Compare
        </button>
      )}
      {task.state === 'failed' && <FailureNote failure={task.failure} title="They cannot be compared" />}
      {task.state === 'done' && <Result document={task.result} to={to} />}
      {!values && task.state === 'done' && (
        <p class="data-pass">
          <button type="button" class="button" onClick={() => setValues(true)}>
            Compare the values
          </button>
          <span class="muted">reads {bytesText(from.summary.dataBytes + to.summary.dataBytes)}; quantised weights as what they stand for</span>
        </p>
      )}
    </div>
  );
}

// Offered on the overview while several models are open.
export function Comparison({ input }: { input: Input }) {
  const others = inputs.value.filter((other) => other !== input && other.tensors.count > 0);
  const [chosen, setChosen] = useState<number | null>(null);
  const other = others.find(({ id }) => id === chosen);
  if (others.length === 0 || input.tensors.count === 0) return null;
  return (
    <section class="compare" aria-label="Compare">
      <label>
        Compare with{' '}
        <select value={chosen ?? ''} onChange={(event) => setChosen(event.currentTarget.value === '' ? null : Number(event.currentTarget.value))}>
          <option value="">nothing</option>
          {others.map(({ id, label }) => (
            <option key={id} value={id}>
              {nameText(label, 80)}
            </option>
          ))}
        </select>
      </label>
      {other && <ComparisonOf key={other.id} from={other} to={input} />}
    </section>
  );
}
