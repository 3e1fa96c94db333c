import type { Core } from './core.js';

/** The module that Emscripten makes; `wasmBinary` is always given. */
declare const createCore: (options: { wasmBinary: ArrayBuffer | Uint8Array }) => Promise<Core>;
export default createCore;
