// A small static server for demonstration and tests: MIME types, single byte ranges, the page's security headers.
//   node server.mjs [--root FOLDER] [--port N] [--help]
// Serves on 127.0.0.1 only (port 8080, or any when that is taken) and prints the address.
import { createReadStream } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { dirname, extname, join, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { headerPolicy } from './policy.mjs';

const types = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.mjs': 'text/javascript; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
  '.webmanifest': 'application/manifest+json',
  '.woff2': 'font/woff2',
};

const usage = `usage: node server.mjs [--root FOLDER] [--port N] [--help]
Serves a folder on 127.0.0.1 and prints the address; Ctrl-C ends it.
  --root FOLDER  what to serve (default: the built page, build/web)
  --port N       the port (default: 8080, or any free one when that is taken)
  --help         prints this text`;

const pageHeaders = {
  'Content-Security-Policy': headerPolicy,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
};

// The first and last byte that a Range header asks for; null when it asks for none, undefined when it cannot be served.
export function parseRange(header, size) {
  if (!header) return null;
  const match = /^bytes=(\d*)-(\d*)$/.exec(header);
  if (!match || (match[1] === '' && match[2] === '')) return null;
  if (match[1] === '') {
    const length = Math.min(Number(match[2]), size);
    return length === 0 ? undefined : [size - length, size - 1];
  }
  const first = Number(match[1]);
  const last = match[2] === '' ? size - 1 : Math.min(Number(match[2]), size - 1);
  return first > last ? undefined : [first, last];
}

async function findFile(root, url) {
  let path;
  try {
    path = decodeURIComponent(new URL(url, 'http://server').pathname);
  } catch {
    return null;
  }
  if (path.includes('\0')) return null;
  try {
    let file = await realpath(join(root, path));
    let found = await stat(file);
    if (found.isDirectory()) {
      file = join(file, 'index.html');
      found = await stat(file);
    }
    const inside = file === root || file.startsWith(root + sep);
    return inside && found.isFile() ? { file, size: found.size, changed: found.mtime } : null;
  } catch {
    return null;
  }
}

// Serves a folder. `headers` are added to every answer; `record` is called with each request.
export async function serve(folder, { port = 0, headers = pageHeaders, record = () => {} } = {}) {
  const root = await realpath(folder);
  const server = createServer(async (request, response) => {
    record(request);
    const answer = (status, more = {}) => response.writeHead(status, { ...headers, ...more });
    if (request.method === 'OPTIONS') return answer(204, { Allow: 'GET, HEAD, OPTIONS' }).end();
    if (request.method !== 'GET' && request.method !== 'HEAD') return answer(405).end();
    const found = await findFile(root, request.url);
    if (!found) return answer(404, { 'Content-Type': 'text/plain' }).end('not found\n');
    const range = parseRange(request.headers.range, found.size);
    if (range === undefined) return answer(416, { 'Content-Range': `bytes */${found.size}` }).end();
    const [first, last] = range ?? [0, found.size - 1];
    answer(range ? 206 : 200, {
      'Content-Type': types[extname(found.file)] ?? 'application/octet-stream',
      'Content-Length': found.size === 0 ? 0 : last - first + 1,
      'Accept-Ranges': 'bytes',
      'Cache-Control': 'no-cache',
      ETag: `"${found.size}-${found.changed.getTime()}"`,
      ...(range ? { 'Content-Range': `bytes ${first}-${last}/${found.size}` } : {}),
    });
    if (request.method === 'HEAD' || found.size === 0) return response.end();
    const stream = createReadStream(found.file, { start: first, end: last });
    stream.on('error', () => response.destroy());
    response.on('close', () => stream.destroy());
    stream.pipe(response);
  });
  await new Promise((done, fail) => server.once('error', fail).listen(port, '127.0.0.1', done));
  return { server, address: `http://127.0.0.1:${server.address().port}/` };
}

if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const here = dirname(fileURLToPath(import.meta.url));
  const { values } = parseArgs({
    options: {
      root: { type: 'string', default: join(here, '../build/web') },
      port: { type: 'string' },
      help: { type: 'boolean' },
    },
  });
  if (values.help) {
    console.log(usage);
    process.exit();
  }
  const taken = (error) => {
    if (values.port !== undefined || error.code !== 'EADDRINUSE') throw error;
    return serve(values.root);
  };
  const { address } = await serve(values.root, { port: Number(values.port ?? 8080) }).catch(taken);
  console.log(address);
}
