import { TftfError } from '../error.js';
import { quoteName } from '../names.js';
import type { OutputFile, OutputSink, OutputWriter } from '../sink.js';

/** A result in memory, for small models and tests. */
export interface MemorySink extends OutputSink {
  /** Final names to contents; empty until everything is whole. */
  readonly files: Map<string, Uint8Array>;
}

function bytesFor(file: OutputFile): Uint8Array {
  try {
    return new Uint8Array(file.size);
  } catch {
    throw new TftfError('refused-memory', `There is not enough memory for the ${file.size} bytes of ${quoteName(file.name)}.`, { file: file.name });
  }
}

export function memorySink(name = 'memory'): MemorySink {
  const files = new Map<string, Uint8Array>();
  const parts = new Map<string, Uint8Array>();
  let order: string[] = [];
  return {
    name,
    block: 16 << 20,
    files,
    async begin(list: OutputFile[]): Promise<void> { order = list.map(file => file.name); },
    async create(file: OutputFile): Promise<OutputWriter> {
      const part = bytesFor(file);
      parts.set(file.name, part);
      return {
        async write(offset: number, bytes: Uint8Array): Promise<void> { part.set(bytes, offset); },
        async close(): Promise<void> {},
      };
    },
    async publish(): Promise<void> { for (const file of order) files.set(file, parts.get(file)!); },
    async abort(): Promise<void> { parts.clear(); },
  };
}
