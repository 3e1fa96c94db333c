import { useMemo, useState } from 'preact/hooks';
import { compareInputs } from '../comparison';
import { countText, nameText, plural } from '../format';
import { inputs, type Input } from '../inputs';

const shown = 12;

function NameList({ title, names }: { title: string; names: string[] }) {
  if (names.length === 0) return null;
  return (
    <details>
      <summary>
        {title} <span class="times">{countText(names.length)}</span>
      </summary>
      <ul class="names">
        {names.slice(0, shown).map((name) => (
          <li key={name}>
            <bdi>{nameText(name, 160)}</bdi>
          </li>
        ))}
        {names.length > shown && <li class="muted">and {countText(names.length - shown)} more</li>}
      </ul>
    </details>
  );
}

export function ComparisonOf({ from, to }: { from: Input; to: Input }) {
  const result = useMemo(() => compareInputs(from, to), [from, to]);
  const { same, onlyFirst, onlySecond, changed } = result;
  return (
    <div class="comparison">
      <p>
        Against <bdi>{nameText(from.label, 80)}</bdi>: {plural(same, 'tensor')} of the same name, dtype and shape
        {changed.length > 0 && `, ${countText(changed.length)} changed`}
        {onlyFirst.length > 0 && `, ${countText(onlyFirst.length)} gone`}
        {onlySecond.length > 0 && `, ${countText(onlySecond.length)} new`}.
      </p>
      {changed.length > 0 && (
        <details>
          <summary>
            Other dtype or shape <span class="times">{countText(changed.length)}</span>
          </summary>
          <ul class="names">
            {changed.slice(0, shown).map(({ name, before, after }) => (
              <li key={name}>
                <bdi>{nameText(name, 160)}</bdi>{' '}
                <span class="muted">
                  {before} → {after}
                </span>
              </li>
            ))}
            {changed.length > shown && <li class="muted">and {countText(changed.length - shown)} more</li>}
          </ul>
        </details>
      )}
      <NameList title="Gone" names={onlyFirst} />
      <NameList title="New" names={onlySecond} />
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
      {other && <ComparisonOf from={other} to={input} />}
    </section>
  );
}
