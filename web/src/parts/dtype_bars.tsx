import { dtypeColour } from '../dtype_palette';
import { bytesCell, countText, parametersText, shareText } from '../format';
import type { Input } from '../inputs';
import { go } from '../route';
import { tensorQuery } from './tensor_view';
import { DtypeMark } from './dtype_mark';

function Stack({ label, parts }: { label: string; parts: { dtype: string; amount: number }[] }) {
  const whole = parts.reduce((sum, part) => sum + part.amount, 0);
  return (
    <div class="stack-row">
      <span class="muted">{label}</span>
      <div class="stack" aria-hidden="true">
        {parts.map(({ dtype, amount }) => (
          <div key={dtype} style={{ flexGrow: whole ? amount / whole : 0, backgroundColor: dtypeColour(dtype) }} />
        ))}
      </div>
    </div>
  );
}

export function DtypeBars({ input }: { input: Input }) {
  const { dtypes, dataBytes, storedElements } = input.summary;
  const sorted = [...dtypes].sort((a, b) => Number(b.bytes) - Number(a.bytes));
  if (sorted.length === 0) return null;
  const show = (dtype: string) => {
    tensorQuery(input).value = `dtype:${dtype.toLowerCase()}`;
    go('tensors');
  };
  return (
    <section class="dtypes" aria-labelledby="dtypes-title">
      <h2 id="dtypes-title">Dtypes</h2>
      <Stack label="Bytes" parts={sorted.map((total) => ({ dtype: total.dtype, amount: Number(total.bytes) }))} />
      <Stack label="Values" parts={sorted.map((total) => ({ dtype: total.dtype, amount: Number(total.elements) }))} />
      <table class="figures">
        <thead>
          <tr>
            <th scope="col">Dtype</th>
            <th scope="col">Tensors</th>
            <th scope="col">Values</th>
            <th scope="col">Bytes</th>
            <th scope="col">Share</th>
          </tr>
        </thead>
        <tbody>
          {sorted.map((total) => (
            <tr key={total.dtype}>
              <th scope="row">
                <button type="button" class="plain" onClick={() => show(total.dtype)}>
                  <DtypeMark dtype={total.dtype} />
                </button>
              </th>
              <td>{countText(total.tensors)}</td>
              <td title={`${countText(total.elements)} of ${countText(storedElements)}`}>{parametersText(Number(total.elements))}</td>
              <td title={`${countText(total.bytes)} bytes`}>{bytesCell(Number(total.bytes))}</td>
              <td>{shareText(Number(total.bytes), dataBytes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
