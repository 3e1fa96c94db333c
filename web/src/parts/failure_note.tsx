import type { Failure } from '../engine/messages';
import { nameText } from '../format';
import { SeverityIcon } from './icons';

// What a person can do about it, by the code of the core's table.
const advice: Record<string, string> = {
  'io-changed': 'The file changed on disk after it was opened. Open it again.',
  'io-read': 'Check that the file is still there and may be read, then open it again. For a URL: the server must allow other sites to read it (CORS) and answer ranges.',
  'io-space': 'Free some space, or choose another place. Old and new file need room at once.',
  'io-write': 'Check that the place may be written to, then save again. Nothing of this run was left behind.',
  'refused-output': 'Choose another place: an existing model is not overwritten, and never the one that is read.',
  'refused-input': 'Open the .safetensors file, its index, or the whole folder.',
  'refused-memory': 'Close other models on this page, or use the command line for this one.',
  internal: 'This should not happen. Please report it with the sentence above.',
};

export function FailureNote({ failure, title }: { failure: Failure; title?: string }) {
  return (
    <div class="failure" role="alert">
      <SeverityIcon severity={0} />
      <div>
        {title && (
          <p class="failure-title">
            <bdi>{nameText(title, 120)}</bdi>
          </p>
        )}
        <p>
          <bdi>{nameText(failure.message, 1200)}</bdi>
        </p>
        {(failure.expected ?? failure.found) && (
          <dl class="expected">
            {failure.expected && (
              <div>
                <dt>Expected</dt>
                <dd>{nameText(failure.expected)}</dd>
              </div>
            )}
            {failure.found && (
              <div>
                <dt>Found</dt>
                <dd>{nameText(failure.found)}</dd>
              </div>
            )}
          </dl>
        )}
        {advice[failure.code] && <p class="muted">{advice[failure.code]}</p>}
      </div>
    </div>
  );
}
