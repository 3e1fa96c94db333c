// Models behind URLs: by ranges, from servers that have them, have none, or change under us.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, expect, test } from 'vitest';
import { expandUrl, lint, openCheckpoint, pathTree, urlTree } from 'tftf';
import { golden, packageFolder, safetensors } from './support.js';

interface Request {
  method: string;
  url: string;
  range: string | undefined;
}
let server: Server | undefined;
afterEach(() => { server?.closeAllConnections(); server?.close(); });

/** Serves `files`; `behave` may answer in another way. */
async function serve(files: Record<string, Uint8Array>,
  behave?: (request: IncomingMessage, response: ServerResponse) => boolean): Promise<{ base: string; requests: Request[] }> {
  const requests: Request[] = [];
  server = createServer((request, response) => {
    const path = decodeURIComponent(request.url!.split('?')[0]!);
    requests.push({ method: request.method!, url: request.url!, range: request.headers.range });
    if (behave?.(request, response)) return;
    const file = files[path];
    if (file === undefined) {
      response.writeHead(404).end();
      return;
    }
    const match = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '');
    const begin = Number(match?.[1]);
    const end = Math.min(Number(match?.[2]) + 1, file.length);
    if (match === null || begin >= file.length) {
      response.writeHead(416, { 'Content-Range': `bytes */${file.length}` }).end();
      return;
    }
    response.writeHead(206, { ETag: '"one"', 'Content-Range': `bytes ${begin}-${end - 1}/${file.length}` });
    response.end(file.subarray(begin, end));
  }).listen(0, '127.0.0.1');
  await new Promise(resolve => server!.once('listening', resolve));
  return { base: `http://127.0.0.1:${(server!.address() as AddressInfo).port}`, requests };
}

const sample = join(golden, '../../docs/sample/qwen3-tiny-fp8');
const sampleFiles = (folder: string): Record<string, Uint8Array> => Object.fromEntries(
  ['config.json', 'model.safetensors.index.json', 'model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors']
    .map(name => [`${folder}${name}`, readFileSync(join(sample, name))]));

const withoutInput = (text: string): unknown => ({ ...JSON.parse(text), input: null });

test('a sharded model by its index, only by ranged GETs', async () => {
  const { base, requests } = await serve(sampleFiles('/m/'));
  const checkpoint = await openCheckpoint(await urlTree(`${base}/m/model.safetensors.index.json`));
  const local = await openCheckpoint(await pathTree(join(sample, 'model.safetensors.index.json')));
  expect(withoutInput(checkpoint.infoJson())).toEqual(withoutInput(local.infoJson()));
  for (const { method, range } of requests) {
    expect(method).toBe('GET');
    expect(range).toMatch(/^bytes=\d+-\d+$/);
  }
  await checkpoint.close();
});

test('hf:// addresses expand to the base, and the model is found by the usual names', async () => {
  const { base, requests } = await serve(sampleFiles('/org/name/resolve/v1/'));
  const tree = await urlTree('hf://org/name@v1', { hub: base });
  const checkpoint = await openCheckpoint(tree);
  expect(checkpoint.info().tensor_count).toBeGreaterThan(10);
  expect(checkpoint.info().input).toBe('hf://org/name@v1');
  expect(requests.every(request => request.url.startsWith('/org/name/resolve/v1/'))).toBe(true);
  await checkpoint.close();
  const report = await lint(tree);
  expect(report.document().info.files).toHaveLength(2);
});

test('addresses', () => {
  expect(expandUrl('hf://a/b')).toBe('https://huggingface.co/a/b/resolve/main/');
  expect(expandUrl('hf://a/b@refs%2Fpr%2F1/sub/x y.safetensors', 'http://h/')).toBe('http://h/a/b/resolve/refs%252Fpr%252F1/sub/x%20y.safetensors');
  expect(() => expandUrl('ftp://a/b')).toThrow('is no address');
  expect(() => expandUrl('hf://a')).toThrow('is no address');
});

const small = safetensors({ a: { dtype: 'U8', shape: [4], data_offsets: [0, 4] } }, new Uint8Array([1, 2, 3, 4]));
/** Larger than what comes with the first request. */
const large = safetensors({ a: { dtype: 'U8', shape: [1 << 20], data_offsets: [0, 1 << 20] } }, new Uint8Array(1 << 20).fill(7));

test('a server that ignores ranges will do for a small file', async () => {
  const { base } = await serve({}, (_, response) => {
    response.writeHead(200, { 'Content-Length': small.length }).end(small);
    return true;
  });
  const checkpoint = await openCheckpoint(await urlTree(`${base}/model.safetensors`));
  expect(checkpoint.info().tensor_count).toBe(1);
  expect([...await checkpoint.tensor(0).values(0, 4)]).toEqual([1, 2, 3, 4]);
  await checkpoint.close();
});

test('a server that ignores ranges is refused for a large file, before it is all sent', async () => {
  let sent = 0;
  const { base } = await serve({}, (_, response) => {
    response.writeHead(200, { 'Content-Length': 2 ** 33 });
    const more = () => {
      while (!response.destroyed) {
        sent += 1 << 16;
        if (!response.write(Buffer.alloc(1 << 16))) break;
      }
    };
    response.on('drain', more);
    more();
    return true;
  });
  await expect(urlTree(`${base}/model.safetensors`)).rejects.toMatchObject({ code: 'io-read', found: 'the server ignores byte ranges' });
  expect(sent).toBeLessThan(64 << 20);
});

test('a file that changes between two ranges is noticed', async () => {
  let asked = 0;
  const { base } = await serve({ '/model.safetensors': large }, (request, response) => {
    if (++asked < 2) return false;
    const [begin, last] = /(\d+)-(\d+)/.exec(request.headers.range!)!.slice(1).map(Number) as [number, number];
    response.writeHead(206, { ETag: '"two"', 'Content-Range': `bytes ${begin}-${last}/${large.length}` });
    response.end(large.subarray(begin, last + 1));
    return true;
  });
  const checkpoint = await openCheckpoint(await urlTree(`${base}/model.safetensors`));
  await expect(checkpoint.tensor(0).values(1 << 19, 4)).rejects.toMatchObject({ code: 'io-changed' });
});

test('what is not there, what is forbidden, who does not answer', async () => {
  const { base } = await serve({}, (request, response) => {
    if (!request.url!.startsWith('/secret')) return false;
    response.writeHead(401).end();
    return true;
  });
  await expect(urlTree(`${base}/model.safetensors`)).rejects.toMatchObject({ code: 'io-read' });
  await expect(urlTree(`${base}/folder/`)).rejects.toThrow('model.safetensors.index.json');
  await expect(urlTree(`${base}/secret/model.safetensors`)).rejects.toThrow('HTTP status 401');
  server!.close();
  server!.closeAllConnections();
  await expect(urlTree(`${base}/model.safetensors`)).rejects.toThrow('cannot be reached');
});

test('an index that names foreign places sends nothing there', async () => {
  const index = { metadata: {}, weight_map: { a: '../other.safetensors', b: 'http://127.0.0.1:1/x.safetensors', c: '/etc/x.safetensors' } };
  const { base, requests } = await serve({ '/m/model.safetensors.index.json': new TextEncoder().encode(JSON.stringify(index)) });
  const tree = await urlTree(`${base}/m/model.safetensors.index.json`);
  const report = await lint(tree);
  expect(report.failed).toBe(true);
  const checkpoint = await openCheckpoint(tree);
  await checkpoint.close();
  expect(requests.every(request => request.url.startsWith('/m/') && !request.url.includes('..'))).toBe(true);
});

test('the command line converts from an address as it does from files', async () => {
  const { base } = await serve(sampleFiles('/m/'));
  const folder = mkdtempSync(join(tmpdir(), 'tftf-http-'));
  const command = join(packageFolder, 'bin/tftf.js');
  const files = (out: string): Record<string, string> =>
    Object.fromEntries(readdirSync(out).sort().map(name => [name, readFileSync(join(out, name)).toString('base64')]));
  try {
    for (const [input, out] of [[`${base}/m/model.safetensors.index.json`, 'far'], [sample, 'near']] as const) {
      await promisify(execFile)(process.execPath, [command, 'dequant-fp8', '-q', '-i', input, '-o', join(folder, out)]);
    }
    const far = files(join(folder, 'far'));
    expect(Object.keys(far)).toContain('model-00001-of-00001.safetensors');
    expect(far['model-00001-of-00001.safetensors']).toBe(files(join(folder, 'near'))['model-00001-of-00001.safetensors']);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
