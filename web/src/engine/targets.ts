// Where results go: picked files and folders, or the browser's own storage.
import { fileSink, folderSink, type OutputFile, type OutputSink, type OutputWriter, type SourceTree, type TransformPlan } from 'tftf';
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
      write: async (offset, bytes) => {
        await this.gate.pass();
        return writer.write(offset, bytes);
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

const storage = () => navigator.storage.getDirectory();

async function innerSink(target: Target, plan: TransformPlan): Promise<OutputSink> {
  if (target.kind === 'file') return fileSink(target.handle);
  if (target.kind === 'folder') return folderSink(target.handle);
  const folder = await (await storage()).getDirectoryHandle(target.folder, { create: true });
  return plan.singleName === null ? folderSink(folder) : fileSink(await folder.getFileHandle(plan.singleName, { create: true }));
}

export async function sinkOf(target: Target, plan: TransformPlan, gate: Gate): Promise<OutputSink> {
  return new PausableSink(await innerSink(target, plan), gate);
}

// Files of a result that lies in the browser's storage, for download.
export async function storedFiles(folder: string): Promise<{ path: string; file: File }[]> {
  const found: { path: string; file: File }[] = [];
  const handle = await (await storage()).getDirectoryHandle(folder);
  for await (const [path, entry] of handle.entries()) {
    if (entry.kind === 'file') found.push({ path, file: await (entry as FileSystemFileHandle).getFile() });
  }
  return found.sort((a, b) => (a.path < b.path ? -1 : 1));
}

export async function removeStored(folder: string): Promise<void> {
  await (await storage()).removeEntry(folder, { recursive: true });
}
