// The package in browsers.
import { setWasm } from './core.js';

export * from './package.js';

setWasm(async () => {
  const response = await fetch(new URL('./core.wasm', import.meta.url));
  if (!response.ok) throw new Error(`The module could not be loaded: HTTP status ${response.status}.`);
  return response.arrayBuffer();
});
