import { useEffect } from 'preact/hooks';
import { announcement, current, inputs, openFailures, opening } from './inputs';
import { openDropped, takeDropped } from './opening';
import { ConvertPlace } from './places/convert';
import { CheckPlace } from './places/check';
import { MetadataPlace } from './places/metadata';
import { OverviewPlace } from './places/overview';
import { StartPlace } from './places/start';
import { TensorsPlace } from './places/tensors';
import { Banner } from './parts/banner';
import { FailureNote } from './parts/failure_note';
import { Icon } from './parts/icons';
import { InputTabs } from './parts/input_tabs';
import { OpeningState } from './parts/opening_state';
import { PlaceTabs } from './parts/place_tabs';
import { SentenceLine } from './parts/sentence_line';
import { dropping, DropVeil } from './parts/drop_veil';
import { route } from './route';

const places = { overview: OverviewPlace, tensors: TensorsPlace, check: CheckPlace, convert: ConvertPlace, metadata: MetadataPlace };

// Files may be dropped anywhere, at any time. What they are dropped on is the veil: a browser drops on the element that it found
// under the pointer last, and nobody hears of it when that has been replaced since, as the page's parts are while something opens.
function useDrops(): void {
  useEffect(() => {
    const holdsFiles = (event: DragEvent) => event.dataTransfer?.types.includes('Files') ?? false;
    let entered: EventTarget | null = null;
    const enter = (event: DragEvent) => {
      if (!holdsFiles(event)) return;
      event.preventDefault();
      entered = event.target;
      dropping.value = true;
    };
    const over = (event: DragEvent) => {
      if (!holdsFiles(event)) return;
      event.preventDefault();
      event.dataTransfer!.dropEffect = 'copy';
      dropping.value = true;
    };
    // What is entered next is entered before this is left.
    const leave = (event: DragEvent) => {
      if (event.target === entered) dropping.value = false;
    };
    const drop = (event: DragEvent) => {
      dropping.value = false;
      if (!event.dataTransfer || !holdsFiles(event)) return;
      event.preventDefault();
      void takeDropped(event.dataTransfer).then(openDropped);
    };
    const listeners = [['dragenter', enter], ['dragover', over], ['dragleave', leave], ['drop', drop]] as const;
    for (const [name, listener] of listeners) addEventListener(name, listener);
    return () => {
      for (const [name, listener] of listeners) removeEventListener(name, listener);
    };
  }, []);
}

export function Page() {
  useDrops();
  const input = current.value;
  const Place = places[route.value.place];
  useEffect(() => {
    document.title = input ? `${input.label} · tftf` : 'tftf: safetensors checkpoints, inspected, checked and converted';
  }, [input]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById('main')?.focus())}>
        Skip to the content
      </a>
      <Banner />
      {input ? (
        <>
          {inputs.value.length > 1 && <InputTabs />}
          <SentenceLine input={input} heading />
          <PlaceTabs input={input} />
          {opening.value && <OpeningState opening={opening.value} />}
          {openFailures.value.map((failed) => (
            <div key={failed.label} class="open-failure">
              <FailureNote failure={failed.failure} title={failed.label} />
              <button type="button" class="button quiet square" aria-label="Close the message" onClick={() => (openFailures.value = openFailures.value.filter((other) => other !== failed))}>
                <Icon name="close" />
              </button>
            </div>
          ))}
          <main class="place-frame">
            <div id="main" class={`place place-${route.value.place}`} tabIndex={-1} role="tabpanel" aria-labelledby={`tab-${route.value.place}`}>
              <Place key={input.id} input={input} />
            </div>
          </main>
        </>
      ) : (
        <main id="main" tabIndex={-1}>
          <StartPlace />
        </main>
      )}
      <DropVeil />
      <div class="sr-only" role="status" aria-live="polite">
        {announcement.value}
      </div>
    </>
  );
}
