import type { RangeSource, SourceEntry, SourceTree } from './source.js';

/**
 * Reads ahead: an adapter's hundreds of small tensors are all read, mostly in their order, and each read of a browser or a
 * server takes its time.
 */
class AheadSource implements RangeSource {
  private begin = 0;
  private bytes = new Uint8Array(0);
  constructor(private readonly source: RangeSource, private readonly block: number) {}
  get size(): number { return this.source.size; }
  async read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    const inside = offset >= this.begin && offset + length <= this.begin + this.bytes.length;
    if (inside) return this.bytes.subarray(offset - this.begin, offset - this.begin + length);
    const bytes = await this.source.read(offset, Math.max(length, Math.min(this.block, this.size - offset)), signal);
    // A source may give the same memory again.
    [this.begin, this.bytes] = [offset, bytes.slice()];
    return this.bytes.subarray(0, length);
  }
  check(): Promise<void> { return this.source.check(); }
  close(): Promise<void> { return this.source.close(); }
}

/** A folder of a tree as a tree, or one file of it. */
export class PartTree implements SourceTree {
  private readonly prefix: string;
  readonly main?: string;
  constructor(private readonly whole: SourceTree, path: string, isFolder: boolean, readonly given: string) {
    const end = isFolder ? path.length : path.lastIndexOf('/') + 1;
    const folder = path.slice(0, end);
    this.prefix = folder === '' || folder.endsWith('/') ? folder : `${folder}/`;
    if (!isFolder) this.main = path.slice(end);
  }
  get block(): number { return this.whole.block; }
  get parallel(): number { return this.whole.parallel; }
  private inside(entries: SourceEntry[]): SourceEntry[] {
    return entries.filter(entry => entry.path.startsWith(this.prefix) && entry.path !== this.prefix)
      .map(entry => ({ ...entry, path: entry.path.slice(this.prefix.length) }));
  }
  async list(signal?: AbortSignal): Promise<SourceEntry[]> {
    if (this.prefix === '') return this.whole.list(signal);
    return (await this.walk(signal)).filter(entry => !entry.path.includes('/'));
  }
  async walk(signal?: AbortSignal): Promise<SourceEntry[]> { return this.inside(await this.whole.walk(signal)); }
  async find(path: string, signal?: AbortSignal): Promise<SourceEntry | undefined> {
    const entry = await this.whole.find(this.prefix + path, signal);
    return entry && { ...entry, path };
  }
  async open(path: string, signal?: AbortSignal): Promise<RangeSource> {
    const source = await this.whole.open(this.prefix + path, signal);
    return source.readSync === undefined ? new AheadSource(source, this.block) : source;
  }
}
