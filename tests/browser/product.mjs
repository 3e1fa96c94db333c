// What the package makes of models in Chromium, and what the native program makes of them: names and hashes of the files.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { basename, extname, join } from 'node:path';
import { at, native } from './harness.mjs';

const types = { '.js': 'text/javascript', '.mjs': 'text/javascript', '.wasm': 'application/wasm', '.html': 'text/html' };

/** The package at /package/, and an empty page beside it. */
export async function servePackage() {
  const server = createServer((request, response) => {
    const path = new URL(request.url, 'http://server').pathname;
    if (path === '/') return response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>package</title>');
    const file = at('build/wasm', path.slice(1));
    if (!path.startsWith('/package/') || path.includes('..') || !existsSync(file)) return response.writeHead(404).end();
    response.writeHead(200, { 'Content-Type': types[extname(file)] ?? 'application/octet-stream' }).end(readFileSync(file));
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  return { stop, address: `http://127.0.0.1:${server.address().port}/` };
}

/** Files of a folder, or a file alone, by name: base64. Links are followed. */
export function filesBelow(folder, wanted = () => true) {
  if (statSync(folder).isFile()) return { [basename(folder)]: readFileSync(folder).toString('base64') };
  const files = {};
  for (const name of readdirSync(folder, { recursive: true }).sort()) {
    if (wanted(name) && statSync(join(folder, name)).isFile()) files[name] = readFileSync(join(folder, name)).toString('base64');
  }
  return files;
}

/**
 * Runs `work` ({operations, command}, or {words, singleName} for `adapter convert`) in the page. `models`: files of the input, and of
 * what the operation takes besides ("from", "adapter", "base"; "files": those that
 * options name, by option). {hashes} by name, or {refused}.
 */
export function productIn(page, models, work) {
  return page.evaluate(
    async ([given, { operations, command, words, singleName }]) => {
      const tftf = await import('/package/dist/index.js');
      const tree = (name) => given[name] && tftf.memoryTree(name, Object.fromEntries(Object.entries(given[name]).map(([path, text]) =>
        [path, Uint8Array.from(atob(text), (c) => c.charCodeAt(0))])));
      try {
        let plan;
        if (words) {
          plan = await tftf.planAdapter(tree('input'), tree('base'), { words, output: 'memory', singleName, dryRun: false });
        } else {
          const checkpoint = await tftf.openCheckpoint(tree('input'));
          const [operation] = operations;
          if (given.from) operation.from = tree('from');
          if (given.files) {
            operation.files = Object.fromEntries(Object.entries(given.files).map(([name, text]) => [name, Uint8Array.from(atob(text), (c) => c.charCodeAt(0))]));
          }
          if (given.adapter) operation.adapter = { tree: tree('adapter') };
          plan = await checkpoint.plan({ operations, command, output: 'memory' });
        }
        const sink = tftf.memorySink();
        await tftf.run(plan, sink);
        const hashes = {};
        for (const [name, content] of sink.files) {
          const digest = await crypto.subtle.digest('SHA-256', content);
          hashes[name] = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
        }
        return { hashes };
      } catch (error) {
        return { refused: String(error) };
      }
    },
    [models, work],
  );
}

/** The same of the native program's: {hashes}, or {refused} with its status. */
export function nativeProduct(words, out) {
  const { status } = native('tftf', words);
  if (status !== 0) return { refused: `status ${status}` };
  if (statSync(out).isFile()) return { hashes: { [basename(out)]: hashOf(out) } };
  return { hashes: Object.fromEntries(readdirSync(out).sort().map((name) => [name, hashOf(join(out, name))])) };
}

const hashOf = (file) => createHash('sha256').update(readFileSync(file)).digest('hex');
