import { useState } from 'preact/hooks';
import type { ShardInfo } from 'tftf';
import { bytesCell, countText, nameText } from '../format';
import type { Input } from '../inputs';
import { go } from '../route';
import { tensorQuery } from './tensor_view';

const statusWords: Record<ShardInfo['status'], string> = { ok: '', missing: 'missing', broken: 'broken', pointer: 'Git LFS pointer' };
const shownAtFirst = 8;

export function ShardList({ input }: { input: Input }) {
  const [all, setAll] = useState(false);
  const { files } = input.summary;
  if (files.length < 2 && files.every((file) => file.status === 'ok')) return null;
  const numbered = files.map((file, i) => ({ file, i }));
  // What is wrong comes first.
  const ordered = [...numbered.filter(({ file }) => file.status !== 'ok'), ...numbered.filter(({ file }) => file.status === 'ok')];
  const shown = all ? ordered : ordered.slice(0, shownAtFirst);
  return (
    <section aria-labelledby="shards-title">
      <h2 id="shards-title">Files</h2>
      <table class="figures shards">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Tensors</th>
            <th scope="col">Bytes</th>
          </tr>
        </thead>
        <tbody>
          {shown.map(({ file, i }) => (
            <tr key={i} class={file.status === 'ok' ? undefined : 'bad'}>
              <th scope="row">
                <button
                  type="button"
                  class="plain"
                  onClick={() => {
                    tensorQuery(input).value = `shard:${i + 1}`;
                    go('tensors');
                  }}
                >
                  <bdi>{nameText(file.name, 90)}</bdi>
                </button>
                {file.status !== 'ok' && <em class="tone-error"> {statusWords[file.status]}</em>}
              </th>
              <td>{file.tensors === null ? '' : countText(file.tensors)}</td>
              <td>{file.size === null ? '' : bytesCell(Number(file.size))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {files.length > shownAtFirst && (
        <button type="button" class="button quiet" onClick={() => setAll(!all)}>
          {all ? 'Show fewer' : `Show all ${countText(files.length)}`}
        </button>
      )}
    </section>
  );
}
