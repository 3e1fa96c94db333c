import { useState } from 'preact/hooks';
import { countText } from '../format';
import { engine, type Input } from '../inputs';
import { FailureNote } from './failure_note';
import { useTask } from './task';

const shown = 128;

export function HexView({ input, tensor }: { input: Input; tensor: number }) {
  const [begin, setBegin] = useState(0);
  const bytes = input.tensors.bytes[tensor]!;
  const { task } = useTask(`${tensor} ${begin}`, true, (options) => engine.bytes(input.id, tensor, begin, Math.min(shown, bytes - begin), options));
  const rows: Uint8Array[] = [];
  if (task.state === 'done') for (let at = 0; at < task.result.length; at += 8) rows.push(task.result.subarray(at, at + 8));
  return (
    <section>
      <h3>Bytes</h3>
      <div class="hex" role="img" aria-label={`Bytes from ${begin} in hexadecimal`}>
        {rows.map((row, i) => (
          <div key={i} class="hex-row">
            <span class="muted hex-offset">{countText(begin + 8 * i)}</span>
            {[...row].map((byte) => (
              <span class={byte === 0 ? 'muted' : undefined}>{byte.toString(16).padStart(2, '0')}</span>
            ))}
          </div>
        ))}
        {task.state === 'running' && <p class="muted">Reading…</p>}
      </div>
      {task.state === 'failed' && <FailureNote failure={task.failure} />}
      {bytes > shown && (
        <div class="pager">
          <button type="button" class="button quiet" disabled={begin === 0} onClick={() => setBegin(Math.max(0, begin - shown))}>
            Before
          </button>
          <button type="button" class="button quiet" disabled={begin + shown >= bytes} onClick={() => setBegin(begin + shown)}>
            After
          </button>
        </div>
      )}
    </section>
  );
}
