import { conversionOf } from '../conversion';
import { closeInput, currentId, inputs, type Input } from '../inputs';
import { nameText } from '../format';
import { Icon } from './icons';

function InputTab({ input }: { input: Input }) {
  const name = nameText(input.label, 60);
  // A run must stay where it can be seen and cancelled.
  const converting = conversionOf(input).run.value.state === 'running';
  return (
    <span class={input.id === currentId.value ? 'input-tab current' : 'input-tab'}>
      <button type="button" aria-current={input.id === currentId.value ? 'true' : undefined} onClick={() => (currentId.value = input.id)}>
        <bdi>{name}</bdi>
      </button>
      <button
        type="button"
        class="close"
        disabled={converting}
        title={converting ? 'It is being converted' : undefined}
        aria-label={`Close ${name}${converting ? ' (it is being converted)' : ''}`}
        onClick={() => closeInput(input)}
      >
        <Icon name="close" />
      </button>
    </span>
  );
}

export function InputTabs() {
  return (
    <nav class="input-tabs" aria-label="Open models">
      {inputs.value.map((input) => (
        <InputTab key={input.id} input={input} />
      ))}
    </nav>
  );
}
