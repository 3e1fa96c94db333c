import type { ComponentChildren } from 'preact';
import { bytesText, countText, exactBytes, nameText, parametersText, plural } from '../format';
import type { Input } from '../inputs';
import { DtypeBars } from '../parts/dtype_bars';
import { Comparison } from '../parts/comparison';
import { MergeOffer } from '../parts/merge_offer';
import { ShardList } from '../parts/shard_list';
import { Treemap } from '../parts/treemap';
import { familyText } from '../sentence';

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

const numbersText = (counts: unknown): string => Object.keys((counts as object | null | undefined) ?? {}).join(', ');

function AdapterFacts({ input }: { input: Input }) {
  const adapter = input.summary.adapter as Record<string, unknown> | null;
  if (!adapter || input.summary.kind !== 'adapter') return null;
  const facts: [string, string][] = [
    ['Forms', numbersText(adapter.forms)],
    ['Ranks', numbersText(adapter.ranks)],
    ['Alphas', numbersText(adapter.alphas)],
    ['Modules', countText(Number(adapter.modules ?? 0))],
  ];
  return (
    <>
      {facts
        .filter(([, text]) => text !== '')
        .map(([name, text]) => (
          <Fact key={name} name={name}>
            {nameText(text, 120)}
          </Fact>
        ))}
    </>
  );
}

const kindWords: Record<string, string> = {
  checkpoint: 'Checkpoint', adapter: 'Adapter', embedding: 'Embedding', data: 'Tensors without a known purpose', index: 'Index without its shards',
  pointer: 'Git LFS pointer', config: 'Configuration only', broken: 'Damaged',
};

// Which of the two layouts of names a model of experts or towers has, and how its experts are stored.
function LayoutFacts({ input }: { input: Input }) {
  const { names, experts } = input.summary;
  if (!names) return null;
  const back = names.layout === 'transformers-5';
  const moving = Number(back ? names.to_transformers_4 : names.to_transformers_5);
  const forms = [
    ['one tensor each', Number(experts?.split ?? 0)],
    ['fused', Number(experts?.fused ?? 0)],
  ].filter(([, count]) => count !== 0);
  return (
    <>
      <Fact name="Names">
        {moving === 0 ? 'the same in transformers 4 and 5' : `as in transformers ${back ? 5 : 4}`}{' '}
        {moving > 0 && <span class="muted">{`${countText(moving)} would move to those of ${back ? 4 : 5}`}</span>}
      </Fact>
      {forms.length > 0 && (
        <Fact name="Experts">
          {forms.map(([form]) => form).join(' and ')}{' '}
          <span class="muted">{forms.map(([form, count]) => `${plural(Number(count), 'container')}${forms.length > 1 ? ` ${form}` : ''}`).join(', ')}</span>
        </Fact>
      )}
    </>
  );
}

function Facts({ input }: { input: Input }) {
  const { summary } = input;
  const fileBytes = summary.files.reduce((sum, file) => sum + Number(file.size ?? 0), 0);
  const headers = summary.files.reduce((sum, file) => sum + Number(file.header_length ?? 0), 0);
  return (
    <section aria-labelledby="facts-title">
      <h2 id="facts-title">What it is</h2>
      <dl class="facts">
        <Fact name="Kind">{kindWords[summary.kind] ?? summary.kind}</Fact>
        {summary.family && (
          <Fact name="Family">
            {familyText(summary.family)} <span class="muted">{nameText(summary.family, 60)}</span>
          </Fact>
        )}
        {summary.tensorCount > 0 && (
          <>
        <Fact name="Parameters">
          {summary.logicalParameters === null ? (
            'not told by the layout'
          ) : (
            <>
              {parametersText(summary.logicalParameters)} <span class="muted">{countText(summary.logicalParameters)}</span>
            </>
          )}
        </Fact>
        <Fact name="Tensors">
          {countText(summary.tensorCount)} <span class="muted">{plural(summary.storedElements, 'stored value')}</span>
        </Fact>
        <Fact name="Data">
          {bytesText(summary.dataBytes)} <span class="muted">{exactBytes(summary.dataBytes)}</span>
        </Fact>
          </>
        )}
        <AdapterFacts input={input} />
        <LayoutFacts input={input} />
        <Fact name="Files">
          {plural(summary.files.length, 'file')}
          <span class="muted">
            {' '}
            {bytesText(fileBytes)}, {bytesText(headers)} of headers
          </span>
        </Fact>
        {summary.config?.dtype && <Fact name="Configured dtype">{nameText(summary.config.dtype, 40)}</Fact>}
        {summary.config?.quant_method && <Fact name="Quantisation">{nameText(summary.config.quant_method, 40)}</Fact>}
        {summary.index && (
          <Fact name="Index">
            <bdi>{nameText(summary.index.file, 80)}</bdi>
          </Fact>
        )}
      </dl>
    </section>
  );
}

function Evidence({ input }: { input: Input }) {
  const { layouts, notes, adapter } = input.summary;
  const adapterEvidence = (adapter as { evidence?: string[] } | null)?.evidence ?? [];
  if (layouts.length + notes.length + adapterEvidence.length === 0) return null;
  return (
    <section aria-labelledby="evidence-title">
      <h2 id="evidence-title">How it was recognised</h2>
      <ul class="evidence">
        {layouts.map((layout) => (
          <li key={layout.id}>
            <p>
              <strong>{layout.id}</strong>{' '}
              <span class="muted">
                {plural(Number(layout.modules), 'module')}, {bytesText(Number(layout.bytes))}
              </span>
            </p>
            {layout.evidence.split('; ').map((words) => (
              <p class="muted">
                <bdi>{nameText(words)}</bdi>
              </p>
            ))}
          </li>
        ))}
        {adapterEvidence.map((words) => (
          <li key={words}>
            <bdi>{nameText(words)}</bdi>
          </li>
        ))}
        {notes.map((note) => (
          <li key={note}>
            <bdi>{nameText(note, 1000)}</bdi>
          </li>
        ))}
      </ul>
    </section>
  );
}

export function OverviewPlace({ input }: { input: Input }) {
  return (
    <div class="overview">
      <MergeOffer input={input} />
      <Comparison input={input} />
      {input.summary.dataBytes > 0 && <Treemap input={input} />}
      <div class="overview-facts">
        <Facts input={input} />
        <DtypeBars input={input} />
        <Evidence input={input} />
        <ShardList input={input} />
      </div>
    </div>
  );
}
