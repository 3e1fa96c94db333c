import type { OperationInfo } from 'tftf';
import { adapterConversion } from '../adapter_step';
import { conversionOf, isAdapter, type Conversion } from '../conversion';
import type { Input } from '../inputs';
import { FailureNote } from '../parts/failure_note';
import { Icon } from '../parts/icons';
import { MergeOffer } from '../parts/merge_offer';
import { OperationForm } from '../parts/operation_form';
import { PlanAccount } from '../parts/plan_account';
import { RunView } from '../parts/run_view';
import { go } from '../route';

function Cards({ table, conversion }: { table: OperationInfo[]; conversion: Conversion }) {
  const chosen = conversion.steps.value[0]?.id;
  const ordered = [...table.filter((info) => info.applicable !== false), ...table.filter((info) => info.applicable === false)];
  return (
    <ul class="cards" aria-label="Operations">
      {ordered.map((info) => (
        <li key={info.id}>
          <button
            type="button"
            class="card"
            aria-pressed={info.id === chosen}
            disabled={info.applicable === false}
            onClick={() => {
              conversion.choose(info);
              go('convert', info.id);
            }}
          >
            <strong>{info.title}</strong>
            <span>{info.summary}.</span>
            {info.applicable === false && info.reason && <span class="card-reason">{info.reason}</span>}
          </button>
        </li>
      ))}
    </ul>
  );
}

function Steps({ table, conversion }: { table: OperationInfo[]; conversion: Conversion }) {
  const steps = conversion.steps.value;
  // An adapter is converted by itself.
  const alone = steps.some((step) => step.id === adapterConversion);
  const others = table.filter((info) => info.applicable !== false && !alone && info.id !== adapterConversion && !steps.some((step) => step.id === info.id));
  return (
    <>
      {steps.map((step, i) => {
        const info = table.find((entry) => entry.id === step.id);
        return info && <OperationForm key={`${step.id} ${i}`} info={info} step={step} change={(option, given) => conversion.set(i, option, given)} {...(i > 0 && { remove: () => conversion.remove(i) })} />;
      })}
      {others.length > 0 && (
        <div class="add-step">
          <span class="muted">In the same pass:</span>
          {others.map((info) => (
            <button key={info.id} type="button" class="button quiet" onClick={() => conversion.add(info)}>
              <Icon name="plus" /> {info.title}
            </button>
          ))}
        </div>
      )}
      <fieldset class="form-row output-form">
        <legend>Write</legend>
        <label class="check">
          <input type="radio" name="output" checked={conversion.single.value} onChange={() => conversion.setSingle(true)} />
          one file
        </label>
        <label class="check">
          <input type="radio" name="output" checked={!conversion.single.value} onChange={() => conversion.setSingle(false)} />
          a folder of shards, with config.json and an index
        </label>
      </fieldset>
    </>
  );
}

export function ConvertPlace({ input }: { input: Input }) {
  const conversion = conversionOf(input);
  const table = input.operations.value;
  const run = conversion.run.value;
  if (input.summary.tensorCount === 0) return <p class="nothing">There are no tensors here to convert.</p>;
  if (!table) return <p class="muted">Looking what can be done with it…</p>;
  if (run.state === 'running' || run.state === 'done') {
    return (
      <div class="convert">
        <RunView conversion={conversion} run={run} />
      </div>
    );
  }
  const chosen = conversion.steps.value.length > 0;
  return (
    <div class="convert">
      <h2>Convert</h2>
      {isAdapter(input) && <MergeOffer input={input} />}
      <Cards table={table} conversion={conversion} />
      {run.state === 'failed' &&
        (run.failure.code === 'interrupted' ? (
          <p class="cancelled" role="status">
            Cancelled. Nothing was left behind.
          </p>
        ) : (
          <FailureNote failure={run.failure} title="It was not written" />
        ))}
      {chosen && (
        <div class="convert-work">
          <div class="convert-form">
            <Steps table={table} conversion={conversion} />
          </div>
          <PlanAccount conversion={conversion} />
        </div>
      )}
    </div>
  );
}
