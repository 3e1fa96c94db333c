import { useId, useState } from 'preact/hooks';
import { openFailures, opening } from '../inputs';
import { openAddress, openExample, openPicked } from '../opening';
import { FailureNote } from '../parts/failure_note';
import { Icon } from '../parts/icons';
import { OpeningState } from '../parts/opening_state';

export function StartPlace() {
  const [address, setAddress] = useState('');
  const title = useId();
  return (
    <div class="start">
      <section class="drop-zone" aria-labelledby={title}>
        <h1 id={title}>Drop a checkpoint here</h1>
        <p class="lead">A safetensors file or a model’s folder. See what it is, whether it is sound, and convert it.</p>
        <div class="start-buttons">
          <label class="button primary">
            Choose files
            <input class="sr-only" type="file" multiple data-testid="files" onChange={(event) => void openPicked(event.currentTarget.files)} />
          </label>
          <label class="button">
            Choose a folder
            <input class="sr-only" type="file" data-testid="folder" {...{ webkitdirectory: true }} onChange={(event) => void openPicked(event.currentTarget.files)} />
          </label>
          <button type="button" class="button" onClick={() => void openExample()}>
            Try the example
          </button>
        </div>
        <form
          class="address"
          onSubmit={(event) => {
            event.preventDefault();
            void openAddress(address);
          }}
        >
          <label for={`${title}-url`}>or an address</label>
          <input
            id={`${title}-url`}
            type="text"
            inputMode="url"
            autocomplete="off"
            spellcheck={false}
            placeholder="https://… or hf://org/name"
            value={address}
            onInput={(event) => setAddress(event.currentTarget.value)}
          />
          <button type="submit" class="button" disabled={address.trim() === ''}>
            Open
          </button>
        </form>
        <div class="start-state">
          {opening.value && <OpeningState opening={opening.value} />}
          {openFailures.value.map(({ label, failure }) => (
            <FailureNote key={label} failure={failure} title={label} />
          ))}
        </div>
      </section>
      <ul class="promises">
        <li>
          <Icon name="lock" />
          <div>
            <strong>Nothing is uploaded</strong>
            <span>Files are read here, in your browser. There is no server to send them to.</span>
          </div>
        </li>
        <li>
          <Icon name="disk" />
          <div>
            <strong>Any size</strong>
            <span>Only headers are read to look; converting streams, whatever the model weighs.</span>
          </div>
        </li>
        <li>
          <Icon name="offline" />
          <div>
            <strong>Works offline</strong>
            <span>After this visit the page needs no network.</span>
          </div>
        </li>
      </ul>
    </div>
  );
}
