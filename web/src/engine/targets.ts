// Where results go: picked files and folders, or the browser's own storage, from where they are downloaded.
import { discardDownloads, downloadSink, fileSink, folderSink, type DownloadSink, type OutputFile, type OutputSink, type OutputWriter, type SourceTree } from 'tftf';
import type { Gate } from './gate';
import type { Target } from './messages';

// A sink whose writes wait while the person has paused the run.
class PausableSink implements OutputSink {
  readonly name: string;
  readonly block: number;
  readonly singleName?: string;
  constructor(
    private readonly sink: OutputSink,
    private readonly gate: Gate,
  ) {
    this.name = sink.name;
    this.block = sink.block;
    if (sink.singleName !== undefined) this.singleName = sink.singleName;
  }
  begin(files: OutputFile[], input: SourceTree): Promise<void> {
    return this.sink.begin(files, input);
  }
  async create(file: OutputFile): Promise<OutputWriter> {
    const writer = await this.sink.create(file);
    return {
      write: (offset, bytes) => {
        if (this.gate.open) return writer.write(offset, bytes);
        const kept = bytes.slice();
        return this.gate.pass().then(() => writer.write(offset, kept));
      },
      close: () => writer.close(),
    };
  }
  publish(): Promise<void> {
    return this.sink.publish();
  }
  abort(): Promise<void> {
    return this.sink.abort();
  }
}

const downloads = new Map<number, { sink: DownloadSink; release: () => void }>();
const lockName = 'tftf-downloads';

// Held while a result lies in the storage: other tabs then leave it alone.
const hold = (): Promise<() => void> =>
  new Promise((held) => {
    void navigator.locks.request(lockName, { mode: 'shared' }, () => new Promise<void>((release) => held(release)));
  });

// What earlier visits left is removed, unless another tab is at work.
export async function discardLeftovers(): Promise<void> {
  await navigator.locks.request(lockName, { ifAvailable: true }, async (lock) => {
    if (lock) await discardDownloads().catch(() => undefined);
  });
}

export async function sinkOf(target: Target, plan: number, gate: Gate): Promise<OutputSink> {
  if (target.kind === 'file') return new PausableSink(fileSink(target.handle), gate);
  if (target.kind === 'folder') return new PausableSink(folderSink(target.handle), gate);
  const release = await hold();
  const sink = await downloadSink().catch((error: unknown) => {
    release();
    throw error;
  });
  downloads.set(plan, { sink, release });
  return new PausableSink(sink, gate);
}

// Files of the result of a plan, for download.
export const storedFiles = async (plan: number): Promise<{ path: string; file: File }[]> =>
  ((await downloads.get(plan)?.sink.files()) ?? []).map((file) => ({ path: file.name, file }));

export async function removeStored(plan: number): Promise<void> {
  const stored = downloads.get(plan);
  downloads.delete(plan);
  await stored?.sink.discard();
  stored?.release();
}
