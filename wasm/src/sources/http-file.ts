import { TftfError } from '../error.js';
import { changedError, readError } from '../files.js';
import { quoteName } from '../names.js';
import type { RangeSource } from '../source.js';
import { checkSignal } from '../task.js';

// The first request takes this much: most headers, and small files whole, come with it.
const FIRST = 64 << 10;
// A server without ranges is put up with for files up to this size.
const MOST_WHOLE = 16 << 20;

export type Fetch = typeof fetch;

/** What a response says about which file it is of. */
interface Identity {
  etag: string | null;
  modified: string | null;
  size: number;
}

const sameIdentity = (a: Identity, b: Identity): boolean =>
  a.size === b.size && (a.etag !== null && b.etag !== null ? a.etag === b.etag : a.modified === b.modified || a.modified === null || b.modified === null);

/** "bytes 0-7/1234": begin, end (exclusive) and total. */
function contentRange(response: Response): { begin: number; end: number; total: number } | undefined {
  const match = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(response.headers.get('content-range') ?? '');
  if (match === null) return undefined;
  const [begin, last, total] = match.slice(1).map(Number) as [number, number, number];
  return total > Number.MAX_SAFE_INTEGER ? undefined : { begin, end: last + 1, total };
}

function statusReason(status: number): string {
  if (status === 401 || status === 403) return `the server refuses access (HTTP status ${status})`;
  return `the server answers with HTTP status ${status}`;
}

/** A file behind a URL, read by ranges; nothing but GETs of this URL is ever sent. */
export class HttpFile implements RangeSource {
  private constructor(private readonly url: string, private readonly name: string, private readonly get: Fetch,
    private readonly identity: Identity, private readonly head: Uint8Array) {}

  get size(): number { return this.identity.size; }

  /** Asks for the beginning; nothing when there is no such file. */
  static async open(url: string, name: string, get: Fetch, signal?: AbortSignal): Promise<HttpFile | undefined> {
    return answered(url, name, get, 0, FIRST, signal, async response => {
      if (response.status === 404 || response.status === 410) return undefined;
      const identity = { etag: response.headers.get('etag'), modified: response.headers.get('last-modified') };
      if (response.status === 206) {
        const range = contentRange(response);
        if (range === undefined || range.begin !== 0 || range.end > FIRST) {
          throw readError(name, response.headers.has('content-range')
            ? 'the server answers with other bytes than were asked for'
            : 'the server does not let pages see Content-Range (Access-Control-Expose-Headers)');
        }
        const head = await body(response, name, range.end, signal);
        if (head.length !== range.end) throw readError(name, 'the answer was cut off');
        return new HttpFile(url, name, get, { ...identity, size: range.total }, head);
      }
      if (response.status === 416) return new HttpFile(url, name, get, { ...identity, size: 0 }, new Uint8Array(0));
      if (response.status !== 200) throw readError(name, statusReason(response.status));
      // The whole file: fine when it is small.
      const length = Number(response.headers.get('content-length') ?? 'NaN');
      const whole = length > MOST_WHOLE ? undefined : await body(response, name, MOST_WHOLE, signal).catch(() => undefined);
      checkSignal(signal);
      if (whole === undefined) {
        throw new TftfError('io-read',
          `${quoteName(name)} cannot be read in parts: its server ignores byte ranges. Download the file and open it from disk.`,
          { file: name, found: 'the server ignores byte ranges' });
      }
      return new HttpFile(url, name, get, { ...identity, size: whole.length }, whole);
    });
  }

  async read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    if (offset + length <= this.head.length) return this.head.subarray(offset, offset + length);
    if (length === 0) return new Uint8Array(0);
    return answered(this.url, this.name, this.get, offset, length, signal, async response => {
      if (response.status === 416 || response.status === 404 || response.status === 200) throw changedError(this.name);
      if (response.status !== 206) throw readError(this.name, statusReason(response.status));
      const range = contentRange(response);
      const now = { etag: response.headers.get('etag'), modified: response.headers.get('last-modified'), size: range?.total ?? -1 };
      if (range === undefined || !sameIdentity(this.identity, now)) throw changedError(this.name);
      const bytes = await body(response, this.name, length, signal);
      if (range.begin !== offset || bytes.length !== length) throw readError(this.name, 'the answer was cut off');
      return bytes;
    });
  }

  async check(): Promise<void> {
    if (this.size > this.head.length) await this.read(this.size - 1, 1);
  }
  async close(): Promise<void> {}
}

/** Asks for a range; whatever `take` makes of the answer, the request is over then. */
async function answered<T>(url: string, name: string, get: Fetch, offset: number, length: number, signal: AbortSignal | undefined,
  take: (response: Response) => Promise<T>): Promise<T> {
  checkSignal(signal);
  const controller = new AbortController();
  // With a signal of its own the listener goes with the request: the task's may hear of thousands.
  signal?.addEventListener('abort', () => controller.abort(), { once: true, signal: controller.signal });
  try {
    let response: Response;
    try {
      response = await get(url, {
        headers: { Range: `bytes=${offset}-${offset + length - 1}` },
        credentials: 'omit', referrerPolicy: 'no-referrer', cache: 'no-store', signal: controller.signal,
      });
    } catch (error) {
      checkSignal(signal);
      throw readError(name, `the server cannot be reached, or does not allow pages of other sites to read it (${messageOf(error)})`);
    }
    return await take(response);
  } finally {
    controller.abort();
  }
}

const messageOf = (error: unknown): string => error instanceof Error ? error.message : String(error);

/** The answer's bytes; rejects when there are more than `most`. */
async function body(response: Response, name: string, most: number, signal?: AbortSignal): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  if (response.body === null) return new Uint8Array(0);
  const reader = response.body.getReader();
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      length += part.value.length;
      if (length > most) {
        await reader.cancel().catch(() => undefined);
        throw readError(name, 'the answer is longer than what was asked for');
      }
      chunks.push(part.value);
    }
  } catch (error) {
    if (error instanceof TftfError) throw error;
    checkSignal(signal);
    throw readError(name, `the connection was lost (${messageOf(error)})`);
  }
  if (chunks.length === 1) return chunks[0]!;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}
