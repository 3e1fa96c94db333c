import { useEffect, useState } from 'preact/hooks';
import type { Conversion } from '../conversion';
import type { PlanView } from '../engine/messages';
import { bytesCell, bytesText, countText, exactBytes, nameText, plural } from '../format';
import { canPickFiles } from '../saving';
import { ConfigChanges } from './config_changes';
import { FailureNote } from './failure_note';

const shownFiles = 6;

// Where there are no pickers, the browser's own storage must hold the result.
function useFreeSpace(): number | null {
  const [free, setFree] = useState<number | null>(null);
  useEffect(() => {
    if (!canPickFiles()) void navigator.storage.estimate().then(({ quota, usage }) => setFree((quota ?? 0) - (usage ?? 0)));
  }, []);
  return free;
}

export function TensorAccount({ account }: { account: PlanView['account'] }) {
  const { tensors } = account;
  return (
    <dl class="facts">
      <div>
        <dt>Tensors</dt>
        <dd>
          {countText(tensors.out)} <span class="muted">of {countText(tensors.in)} read</span>
        </dd>
      </div>
      <div>
        <dt>Changed</dt>
        <dd>{countText(tensors.changed)}</dd>
      </div>
      <div>
        <dt>Copied</dt>
        <dd>{countText(tensors.copied)}</dd>
      </div>
      {tensors.dropped.map((dropped) => (
        <div key={dropped.reason}>
          <dt>Dropped</dt>
          <dd>
            {countText(dropped.count)} <span class="muted">{dropped.reason}</span>
          </dd>
        </div>
      ))}
      {account.merges?.map((merge, i) => (
        <div key={i}>
          <dt>Merged</dt>
          <dd>
            {countText(merge.merged)} of {plural(Number(merge.modules), 'adapted module')}{' '}
            <span class="muted">
              {Number(merge.left_out) > 0 && `${countText(merge.left_out)} left out by its configuration, `}
              {plural(Number(merge.tensors), 'tensor')} changed{Number(merge.added) > 0 && `, ${countText(merge.added)} added`}, from <bdi>{nameText(merge.adapter, 60)}</bdi>
            </span>
          </dd>
        </div>
      ))}
      {account.grafts?.map((graft, i) => (
        <div key={i}>
          <dt>Taken</dt>
          <dd>
            {plural(Number(graft.taken), 'tensor')}{' '}
            <span class="muted">
              {Number(graft.converted) > 0 && `${countText(graft.converted)} cast or dequantised, `}
              {Number(graft.replaced) > 0 && `${countText(graft.replaced)} of the model replaced, `}from <bdi>{nameText(graft.source, 60)}</bdi>
            </span>
          </dd>
        </div>
      ))}
      {Number(tensors.left_quantised) > 0 && (
        <div>
          <dt>Left quantised</dt>
          <dd>{plural(Number(tensors.left_quantised), 'module')}</dd>
        </div>
      )}
    </dl>
  );
}

function Files({ view }: { view: PlanView }) {
  const [all, setAll] = useState(false);
  const shown = all ? view.outputs : view.outputs.slice(0, shownFiles);
  return (
    <>
      <table class="figures">
        <thead>
          <tr>
            <th scope="col">File</th>
            <th scope="col">Bytes</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((file) => (
            <tr key={file.name}>
              <th scope="row">
                <bdi>{nameText(file.name, 90)}</bdi>
              </th>
              <td title={exactBytes(file.size)}>{bytesCell(file.size)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {view.outputs.length > shownFiles && (
        <button type="button" class="button quiet" onClick={() => setAll(!all)}>
          {all ? 'Show fewer' : `Show all ${countText(view.outputs.length)}`}
        </button>
      )}
    </>
  );
}

export function PlanAccount({ conversion }: { conversion: Conversion }) {
  const free = useFreeSpace();
  const plan = conversion.plan.value;
  const missing = conversion.missing();
  return (
    <section class="plan" aria-labelledby="plan-title" aria-live="polite">
      <h3 id="plan-title">What will be written</h3>
      {plan.state === 'none' && <p class="muted">{missing.length > 0 ? `Give ${missing.map((option) => option.name).join(', ')} to see the plan.` : 'Choose what to do.'}</p>}
      {plan.state === 'planning' && <p class="muted">Planning…</p>}
      {plan.state === 'refused' && <FailureNote failure={plan.failure} title="This cannot be done as it stands" />}
      {plan.state === 'ready' && (
        <>
          <Files view={plan.view} />
          <TensorAccount account={plan.view.account} />
          <ConfigChanges account={plan.view.account} />
          {plan.view.account.warnings.map((warning) => (
            <p key={warning} class="tone-warning">
              <bdi>{nameText(warning, 600)}</bdi>
            </p>
          ))}
          <p class="muted">
            Reads {bytesText(plan.view.readBytes)}, writes {bytesText(plan.view.writtenBytes)}, needs {bytesText(plan.view.memoryBytes)} of memory.
            {free !== null && ` The browser’s storage has room for ${bytesText(free)}.`}
          </p>
          <button type="button" class="button primary" disabled={free !== null && free < plan.view.writtenBytes} onClick={() => void conversion.save()}>
            {canPickFiles() ? (plan.view.singleName === null ? 'Save into a folder…' : 'Save as…') : 'Convert, then download'}
          </button>
          {canPickFiles() && plan.view.singleName === null && <p class="help">Choose or create an empty folder. Nothing appears under a final name before all is written.</p>}
          {free !== null && free < plan.view.writtenBytes && <p class="tone-error">There is not enough room in the browser’s storage. Use Chromium, Chrome or Edge, which write straight to a file you choose.</p>}
        </>
      )}
    </section>
  );
}
