import { useEffect, useRef, useState } from 'preact/hooks';
import { bytesText, countText, exactBytes, nameText, plural, valueText } from '../format';
import { engine, type Input } from '../inputs';
import { go, route } from '../route';
import { DtypeMark } from './dtype_mark';
import { FailureNote } from './failure_note';
import { HeatMapView } from './heat_map';
import { HexView } from './hex_view';
import { Icon } from './icons';
import { Statistics } from './statistics';
import { useTask } from './task';

function TensorLink({ input, tensor }: { input: Input; tensor: number }) {
  const name = input.tensors.names[tensor]!;
  return (
    <button type="button" class="link" onClick={() => go('tensors', name)}>
      <bdi>{nameText(name, 160)}</bdi>
    </button>
  );
}

function companionsOf(input: Input, tensor: number): number[] {
  const found: number[] = [];
  input.tensors.companionOf.forEach((owner, i) => {
    if (owner === tensor) found.push(i);
  });
  return found;
}

const shownValues = 24;

function FirstValues({ input, tensor, logical }: { input: Input; tensor: number; logical: boolean }) {
  const count = Math.min(shownValues, input.tensors.elements[tensor]!);
  const { task } = useTask(`${tensor} ${logical}`, true, (options) => engine.values(input.id, tensor, logical, 0, count, options));
  return (
    <section>
      <h3>First values</h3>
      {task.state === 'done' && (
        <ol class="values">
          {[...task.result].map((value) => (
            <li title={String(value)}>{valueText(value)}</li>
          ))}
        </ol>
      )}
      {task.state === 'running' && <p class="muted reserve">Reading…</p>}
      {task.state === 'failed' && <FailureNote failure={task.failure} />}
    </section>
  );
}

export function TensorDetail({ input, tensor }: { input: Input; tensor: number }) {
  const { tensors } = input;
  const [logical, setLogical] = useState(false);
  const panel = useRef<HTMLElement>(null);
  const name = tensors.names[tensor]!;
  const companions = companionsOf(input, tensor);
  const owner = tensors.companionOf[tensor]!;
  const file = input.summary.files[tensors.file[tensor]!];
  const begin = tensors.begin[tensor]!;
  const inFile = begin + Number(file?.header_length ?? 0) + 8;
  const bytes = tensors.bytes[tensor]!;
  const logicalText = tensors.logicals[tensors.logical[tensor]!]!;
  const empty = tensors.elements[tensor] === 0;

  // On a narrow screen the panel takes the place of the table.
  useEffect(() => {
    if (matchMedia('(max-width: 900px)').matches) panel.current?.focus();
  }, [tensor]);
  const close = () => {
    go('tensors');
    document.querySelector<HTMLElement>('.tensor-table')?.focus();
  };

  return (
    <aside
      ref={panel}
      class="tensor-detail"
      aria-labelledby="tensor-name"
      tabIndex={-1}
      onKeyDown={(event) => {
        if (event.key === 'Escape' && route.value.place === 'tensors') close();
      }}
    >
      <header>
        <h2 id="tensor-name">
          <bdi>{nameText(name, 600)}</bdi>
        </h2>
        <button type="button" class="button quiet square" aria-label="Copy the name" title="Copy the name" onClick={() => void navigator.clipboard.writeText(name)}>
          <Icon name="copy" />
        </button>
        <button type="button" class="button quiet square" aria-label="Close the tensor" onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      <dl class="facts">
        <div>
          <dt>Dtype</dt>
          <dd>
            <DtypeMark dtype={tensors.dtypes[tensors.dtype[tensor]!]!} />
          </dd>
        </div>
        <div>
          <dt>Shape</dt>
          <dd>
            {tensors.shapes[tensors.shape[tensor]!]} <span class="muted">{plural(tensors.elements[tensor]!, 'value')}</span>
          </dd>
        </div>
        <div>
          <dt>Bytes</dt>
          <dd>
            {bytesText(bytes)} <span class="muted">{exactBytes(bytes)}</span>
          </dd>
        </div>
        <div>
          <dt>File</dt>
          <dd>
            <bdi>{nameText(file?.name ?? '', 120)}</bdi>
          </dd>
        </div>
        <div>
          <dt>Offsets</dt>
          <dd>
            {countText(begin)} to {countText(begin + bytes)} <span class="muted">in the data, {countText(inFile)} in the file</span>
          </dd>
        </div>
        {tensors.layout[tensor]! > 0 && (
          <div>
            <dt>Layout</dt>
            <dd>{tensors.layouts[tensors.layout[tensor]!]}</dd>
          </div>
        )}
        {logicalText && (
          <div>
            <dt>Means</dt>
            <dd>{logicalText}</dd>
          </div>
        )}
        {owner >= 0 && (
          <div>
            <dt>Belongs to</dt>
            <dd>
              <TensorLink input={input} tensor={owner} />
            </dd>
          </div>
        )}
        {companions.length > 0 && (
          <div>
            <dt>Companions</dt>
            <dd>
              {companions.map((companion) => (
                <TensorLink key={companion} input={input} tensor={companion} />
              ))}
            </dd>
          </div>
        )}
      </dl>
      {logicalText && (
        <div class="switch" role="group" aria-label="Which values">
          <button type="button" aria-pressed={!logical} onClick={() => setLogical(false)}>
            As stored
          </button>
          <button type="button" aria-pressed={logical} onClick={() => setLogical(true)}>
            Dequantised
          </button>
        </div>
      )}
      {empty ? (
        <p class="muted">It has no values.</p>
      ) : (
        <>
          <Statistics input={input} tensor={tensor} logical={logical} />
          <HeatMapView input={input} tensor={tensor} logical={logical} />
          <FirstValues input={input} tensor={tensor} logical={logical} />
          <HexView input={input} tensor={tensor} />
        </>
      )}
    </aside>
  );
}
