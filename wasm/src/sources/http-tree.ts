import { TftfError } from '../error.js';
import { readError, shared } from '../files.js';
import { quoteName } from '../names.js';
import type { RangeSource, SourceEntry, SourceTree } from '../source.js';
import { HttpFile, type Fetch } from './http-file.js';
import { ownEntries, withFolders } from './tree-entries.js';

export interface UrlOptions {
  /** What hf:// stands for; "https://huggingface.co" when absent. */
  hub?: string;
  fetch?: Fetch;
  signal?: AbortSignal;
}

// What a folder is known by when it cannot be listed, in this order.
const MODELS = [
  'model.safetensors.index.json', 'model.safetensors', 'adapter_model.safetensors',
  'diffusion_pytorch_model.safetensors.index.json', 'diffusion_pytorch_model.safetensors',
];
// Files of a model beside its weights, what the linter looks at included.
const SIDE_FILES = [
  'config.json', 'tokenizer.json', 'adapter_config.json', 'model_index.json', 'generation_config.json',
  'hf_quant_config.json', 'quantize_config.json', 'quant_config.json',
];

/** `hf://org/name[@revision][/path]` as an address, anything else as it is. */
export function expandUrl(given: string, hub = 'https://huggingface.co'): string {
  if (typeof given !== 'string') throw new TftfError('usage', 'An address is a text.');
  const match = /^hf:\/\/([^/@\s]+)\/([^/@\s]+)(?:@([^/\s]+))?(?:\/(.*))?$/.exec(given);
  if (match === null) {
    if (!/^https?:\/\/[^/\s]/.test(given)) {
      throw new TftfError('usage', `${quoteName(given)} is no address: https://…, or hf://org/name[@revision][/path].`);
    }
    return given;
  }
  const [, org, name, revision = 'main', path = ''] = match as unknown as [string, string, string, string?, string?];
  const parts = path.split('/').filter(part => part !== '').map(encodeURIComponent);
  return [hub.replace(/\/+$/, ''), org, name, 'resolve', encodeURIComponent(revision), ...parts].join('/') + (path === '' || path.endsWith('/') ? '/' : '');
}

/** A URL's folder and what is asked of it. There are no listings: files are found by their names, from `anchor` on. */
class HttpTree implements SourceTree {
  readonly block = 16 << 20;
  readonly parallel = 6;
  readonly main?: string;
  private readonly files = new Map<string, Promise<HttpFile | undefined>>();

  constructor(readonly given: string, private readonly anchor: string, whole: boolean, private readonly base: string,
    private readonly query: string, private readonly get: Fetch) {
    if (!whole) this.main = anchor;
  }

  file(path: string, signal?: AbortSignal): Promise<HttpFile | undefined> {
    return shared(() => {
      let file = this.files.get(path);
      if (file === undefined) {
        const address = this.base + path.split('/').map(encodeURIComponent).join('/') + this.query;
        file = HttpFile.open(address, path, this.get, signal);
        this.files.set(path, file);
        file.catch(() => this.files.delete(path));
      }
      return file;
    }, signal);
  }

  async find(path: string, signal?: AbortSignal): Promise<SourceEntry | undefined> {
    try {
      const file = await this.file(path, signal);
      return file === undefined ? undefined : { path, folder: false, size: file.size };
    } catch (error) {
      if (!(error instanceof TftfError) || error.code === 'interrupted') throw error;
      return { path, folder: false, size: 0, unreadable: error.found ?? error.message };
    }
  }
  async open(path: string, signal?: AbortSignal): Promise<RangeSource> {
    const file = await this.file(path, signal);
    if (file === undefined) throw readError(path, 'no such file');
    return file;
  }

  async list(signal?: AbortSignal): Promise<SourceEntry[]> { return ownEntries(await this.walk(signal)); }
  /** The model, the shards that its index names, and the files that go with models. */
  async walk(signal?: AbortSignal): Promise<SourceEntry[]> {
    const shards = this.anchor.endsWith('.json') ? await this.shards(signal) : [];
    const found: SourceEntry[] = [];
    // An index names its shards once for each tensor.
    const left = [...new Set([this.anchor, ...SIDE_FILES, ...shards])];
    await Promise.all(Array.from({ length: this.parallel }, async () => {
      for (let path = left.shift(); path !== undefined; path = left.shift()) {
        const entry = await this.find(path, signal);
        if (entry !== undefined) found.push(entry);
      }
    }));
    return withFolders(found);
  }
  private async shards(signal?: AbortSignal): Promise<string[]> {
    const file = await this.file(this.anchor, signal);
    if (file === undefined) return [];
    try {
      const text = new TextDecoder().decode(await file.read(0, file.size, signal));
      const names = Object.values(JSON.parse(text).weight_map as Record<string, unknown>);
      return names.filter((name): name is string => typeof name === 'string' && isPlain(name));
    } catch (error) {
      if (error instanceof TftfError) throw error;
      return [];
    }
  }
}

function parsed(address: string): URL {
  try {
    return new URL(address);
  } catch {
    throw new TftfError('usage', `${quoteName(address)} is no valid address.`);
  }
}

function unescaped(part: string, given: string): string {
  let name: string;
  try {
    name = decodeURIComponent(part);
  } catch {
    throw new TftfError('usage', `${quoteName(given)} is no valid address: what follows a % are two hexadecimal digits of UTF-8.`);
  }
  if (name !== '' && !isPlain(name)) throw new TftfError('usage', `${quoteName(given)} names no file: ${quoteName(name)}.`);
  return name;
}

/** A relative path that stays inside the folder. */
function isPlain(name: string): boolean {
  return name !== '' && !/^\/|^[a-z]+:|\\/i.test(name) && name.split('/').every(part => part !== '' && part !== '.' && part !== '..');
}

/**
 * A model behind a URL: a .safetensors file, an index, or a folder (it ends in '/', or is an hf:// address without a path),
 * whose model is found by the usual names. Rejects with 'usage' for what is no address, 'io-read' for what is not there.
 */
export async function urlTree(given: string, options: UrlOptions = {}): Promise<SourceTree> {
  const url = parsed(expandUrl(given, options.hub));
  url.hash = '';
  const get = options.fetch ?? ((input, init) => fetch(input, init));
  const slash = url.pathname.lastIndexOf('/');
  let folder = url.origin + url.pathname.slice(0, slash + 1);
  const name = unescaped(url.pathname.slice(slash + 1), given);
  if (name !== '') {
    const tree = new HttpTree(given, name, false, folder, url.search, get);
    if (await tree.file(name, options.signal) !== undefined) return tree;
    if (name.includes('.')) throw readError(given, 'the server has no such file');
    // A folder without its slash.
    folder += `${encodeURIComponent(name)}/`;
  }
  for (const main of MODELS) {
    const tree = new HttpTree(given, main, true, folder, url.search, get);
    if (await tree.file(main, options.signal) !== undefined) return tree;
  }
  throw readError(given, `the server has none of ${MODELS.join(', ')} there`);
}
