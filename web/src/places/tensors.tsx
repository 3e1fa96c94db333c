import { useRef } from 'preact/hooks';
import { bytesText, countText, nameText, plural } from '../format';
import { tensorIndex, type Input } from '../inputs';
import { TensorDetail } from '../parts/tensor_detail';
import { TensorTable } from '../parts/tensor_table';
import { tensorView } from '../parts/tensor_view';
import { route } from '../route';

export function TensorsPlace({ input }: { input: Input }) {
  const view = tensorView(input);
  const search = useRef<HTMLInputElement>(null);
  const { unknown, rows } = view.filtered.value;
  const chosen = route.value.place === 'tensors' && route.value.detail !== '' ? tensorIndex(input, route.value.detail) : -1;
  if (input.tensors.count === 0) {
    return <p class="nothing">There are no tensors to show: no weight file here could be read. The Check says why.</p>;
  }
  return (
    <div class={chosen >= 0 ? 'tensors with-detail' : 'tensors'}>
      <div class="tensors-list">
        <div class="filter-line">
          <input
            ref={search}
            type="search"
            class="filter"
            aria-label="Filter tensors"
            placeholder="Filter: text, *.glob, dtype:bf16, size:>100MB, shard:3"
            autocomplete="off"
            spellcheck={false}
            value={view.query.value}
            onInput={(event) => {
              view.query.value = event.currentTarget.value;
              view.cursor.value = 0;
            }}
          />
          <label class="check">
            <input type="checkbox" checked={view.folded.value} onChange={(event) => (view.folded.value = event.currentTarget.checked)} />
            Fold layers
          </label>
        </div>
        <p class="table-note" role="status">
          {unknown.length > 0 ? (
            <span class="tone-warning">Not understood: {nameText(unknown.join(' '), 100)}. Fields are dtype, size, values, shape, rank, shard, layout.</span>
          ) : (
            <span class="muted">
              {rows.length === input.tensors.count ? plural(rows.length, 'tensor') : `${countText(rows.length)} of ${plural(input.tensors.count, 'tensor')}`}, {bytesText(view.shownBytes.value)}
            </span>
          )}
        </p>
        <TensorTable input={input} />
      </div>
      {chosen >= 0 && <TensorDetail key={chosen} input={input} tensor={chosen} />}
      {chosen < 0 && route.value.detail !== '' && <p class="nothing">There is no tensor of the name in the address.</p>}
    </div>
  );
}
