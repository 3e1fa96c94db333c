import { useId } from 'preact/hooks';
import type { OperationInfo, OptionInfo } from 'tftf';
import { openAdapters, openModels, type Step } from '../conversion';
import { nameText } from '../format';
import { Icon } from './icons';

interface FieldProps {
  option: OptionInfo;
  given: string[][];
  change: (given: string[][]) => void;
}

const words = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1).replace(/-/g, ' ');

// Adding and removing lines, for options that may be given several times.
function Lines({ option, given, change, width, labels }: FieldProps & { width: number; labels: string[] }) {
  const lines = given.length > 0 ? given : [Array<string>(width).fill('')];
  const set = (line: number, at: number, text: string) => change(lines.map((old, i) => (i === line ? old.map((word, j) => (j === at ? text : word)) : old)));
  return (
    <div class="lines">
      {lines.map((line, i) => (
        <div class="line" key={i}>
          {line.map((word, j) => (
            <input
              key={j}
              type="text"
              autocomplete="off"
              spellcheck={false}
              aria-label={`${words(option.name)}${labels[j] ? `, ${labels[j]}` : ''}${lines.length > 1 ? ` ${i + 1}` : ''}`}
              placeholder={labels[j]}
              value={word}
              onInput={(event) => set(i, j, event.currentTarget.value)}
            />
          ))}
          {lines.length > 1 && (
            <button type="button" class="button quiet square" aria-label={`Remove ${words(option.name)} ${i + 1}`} onClick={() => change(lines.filter((_, k) => k !== i))}>
              <Icon name="close" />
            </button>
          )}
        </div>
      ))}
      {option.repeatable && (
        <button type="button" class="link" onClick={() => change([...lines, Array<string>(width).fill('')])}>
          One more
        </button>
      )}
    </div>
  );
}

// Files are not named here but opened.
function AdapterChoice({ id, value, set }: { id: string; value: string; set: (text: string) => void }) {
  const adapters = openAdapters();
  return (
    <>
      <select id={id} value={value} disabled={adapters.length === 0} onChange={(event) => set(event.currentTarget.value)}>
        <option value="">{adapters.length === 0 ? 'none is open' : 'choose…'}</option>
        {adapters.map((input) => (
          <option key={input.id} value={String(input.id)}>
            {nameText(input.label, 60)}
          </option>
        ))}
      </select>
      <p class="help">{adapters.length === 0 ? 'Drop an adapter anywhere on this page: its folder, or adapter_model.safetensors together with adapter_config.json.' : 'One of the adapters that are open here. Drop another to add it.'}</p>
    </>
  );
}

function ModelChoice({ id, value, set }: { id: string; value: string; set: (text: string) => void }) {
  const models = openModels();
  return (
    <>
      <select id={id} value={value} disabled={models.length === 0} onChange={(event) => set(event.currentTarget.value)}>
        <option value="">{models.length === 0 ? 'none is open' : 'choose…'}</option>
        {models.map((input) => (
          <option key={input.id} value={String(input.id)}>
            {nameText(input.label, 60)}
          </option>
        ))}
      </select>
      <p class="help">One of the models that are open here: drop the folder of another onto this page to add it.</p>
    </>
  );
}

function Field({ option, given, change }: FieldProps) {
  const id = useId();
  const value = given[0]?.[0] ?? '';
  const label = (
    <label class="field-name" for={id}>
      {words(option.name)}
      {option.required && <span class="muted"> needed</span>}
    </label>
  );
  const help = <p class="help">{option.help}.</p>;
  const set = (text: string) => change(text === '' ? [] : [[text]]);
  switch (option.kind) {
    case 'flag':
      return (
        <div class="form-row">
          <label class="check">
            <input type="checkbox" checked={given.length > 0} onChange={(event) => change(event.currentTarget.checked ? [[]] : [])} />
            {words(option.name)}
          </label>
          {help}
        </div>
      );
    case 'choice':
      return (
        <div class="form-row">
          {label}
          <select id={id} value={value || option.default || ''} onChange={(event) => set(event.currentTarget.value)}>
            {option.default === null && <option value="">{option.required ? 'choose…' : 'as it is'}</option>}
            {(option.choices ?? []).map((choice) => (
              <option key={choice} value={choice}>
                {choice}
              </option>
            ))}
          </select>
          {help}
        </div>
      );
    case 'rule':
      return (
        <fieldset class="form-row">
          <legend class="field-name">{words(option.name)}</legend>
          <Lines option={option} given={given} change={change} width={2} labels={['pattern', 'replacement']} />
          {help}
        </fieldset>
      );
    case 'glob':
      return (
        <fieldset class="form-row">
          <legend class="field-name">{words(option.name)}</legend>
          <Lines option={option} given={given} change={change} width={1} labels={['*.glob']} />
          {help}
        </fieldset>
      );
    case 'path':
      return (
        <div class="form-row">
          {label}
          {option.name === 'from' || option.name === 'base' ? <ModelChoice id={id} value={value} set={set} /> : <AdapterChoice id={id} value={value} set={set} />}
        </div>
      );
    case 'integer':
    case 'number':
    case 'size':
    case 'text':
      return (
        <div class="form-row">
          {label}
          <span class="with-unit">
            <input
              id={id}
              type="text"
              inputMode={option.kind === 'integer' ? 'numeric' : option.kind === 'number' ? 'decimal' : 'text'}
              autocomplete="off"
              spellcheck={false}
              placeholder={option.default ?? 'by the input'}
              value={value}
              onInput={(event) => set(event.currentTarget.value.trim())}
            />
            {option.unit && <span class="muted">{option.kind === 'size' ? 'bytes, or as 5GB, 5GiB' : option.unit}</span>}
          </span>
          {help}
        </div>
      );
  }
}

export function OperationForm({ info, step, change, remove }: { info: OperationInfo; step: Step; change: (option: string, given: string[][]) => void; remove?: () => void }) {
  return (
    <section class="operation-form" aria-label={info.title}>
      <div class="section-head">
        <h3>{info.title}</h3>
        {remove && (
          <button type="button" class="button quiet square" aria-label={`Remove ${info.title}`} onClick={remove}>
            <Icon name="close" />
          </button>
        )}
      </div>
      <p class="muted">Leaves {info.writes}.</p>
      {info.options.filter((option) => option.kind !== 'path' || option.required || option.name === 'base').map((option) => (
        <Field key={option.name} option={option} given={step.values[option.name] ?? []} change={(given) => change(option.name, given)} />
      ))}
    </section>
  );
}
