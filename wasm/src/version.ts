import { call, loadCore } from './core.js';

/** The core's version: "1.0.0". */
export async function version(): Promise<string> {
  const core = await loadCore();
  return call(core, () => core.version());
}
