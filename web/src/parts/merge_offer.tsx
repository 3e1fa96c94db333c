import { isAdapter, offerMerge } from '../conversion';
import { nameText } from '../format';
import { inputs, type Input } from '../inputs';

// While a model and an adapter are open: the way from either to their merge.
export function MergeOffer({ input }: { input: Input }) {
  const others = inputs.value.filter((other) => other.tensors.count > 0 && isAdapter(other) !== isAdapter(input));
  if (others.length === 0 || input.tensors.count === 0) return null;
  return (
    <section class="merge-offer" aria-label="Merge">
      {others.map((other) => {
        const [base, adapter] = isAdapter(input) ? [other, input] : [input, other];
        return (
          <button key={other.id} type="button" class="button" onClick={() => void offerMerge(base, adapter)}>
            <span>
              Merge <bdi>{nameText(adapter.label, 40)}</bdi> into <bdi>{nameText(base.label, 40)}</bdi>…
            </span>
          </button>
        );
      })}
    </section>
  );
}
