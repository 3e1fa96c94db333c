import { render } from 'preact';
import { Page } from './page';

render(<Page />, document.getElementById('page')!);

if ('serviceWorker' in navigator) {
  navigator.serviceWorker.register(new URL('service_worker.js', document.baseURI)).catch(() => {
    // Without it the page works as long as there is a network.
  });
}
