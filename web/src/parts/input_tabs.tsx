import { closeInput, currentId, inputs } from '../inputs';
import { nameText } from '../format';
import { Icon } from './icons';

export function InputTabs() {
  return (
    <nav class="input-tabs" aria-label="Open models">
      {inputs.value.map((input) => (
        <span key={input.id} class={input.id === currentId.value ? 'input-tab current' : 'input-tab'}>
          <button type="button" aria-current={input.id === currentId.value ? 'true' : undefined} onClick={() => (currentId.value = input.id)}>
            <bdi>{nameText(input.label, 60)}</bdi>
          </button>
          <button type="button" class="close" aria-label={`Close ${nameText(input.label, 60)}`} onClick={() => closeInput(input)}>
            <Icon name="close" />
          </button>
        </span>
      ))}
    </nav>
  );
}
