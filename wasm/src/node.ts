// The package in Node.js: files of this machine besides.
import { readFile } from 'node:fs/promises';
import { setWasm } from './core.js';

export * from './package.js';
export { pathTree } from './sources/node-tree.js';
export { pathSink, type PathSinkOptions } from './sinks/node-sink.js';

setWasm(() => readFile(new URL('./core.wasm', import.meta.url)));
