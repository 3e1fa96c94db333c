// A quantised weight as its layout means it: dequantised alone, in memory, by the same plan that a conversion makes.
import { BlobTree, openCheckpoint, run, TftfError, type Checkpoint, type OutputFile, type OutputSink, type OutputWriter, type TensorReader } from 'tftf';

// Larger results are left to a conversion.
const mostBytes = 256e6;

class MemorySink implements OutputSink {
  readonly name = 'memory';
  readonly singleName = 'tensor.safetensors';
  readonly block = 1 << 20;
  bytes = new Uint8Array(0);
  async begin(files: OutputFile[]): Promise<void> {
    const size = files.reduce((sum, file) => sum + file.size, 0);
    if (size > mostBytes) throw new TftfError('refused-memory', 'The dequantised tensor is too large to be looked at here; convert the model and open the result.');
  }
  async create(file: OutputFile): Promise<OutputWriter> {
    this.bytes = new Uint8Array(file.size);
    return { write: async (offset, bytes) => this.bytes.set(bytes, offset), close: async () => {} };
  }
  async publish(): Promise<void> {}
  async abort(): Promise<void> {
    this.bytes = new Uint8Array(0);
  }
}

const escapedGlob = (name: string): string => name.replace(/[*?[]/g, '[$&]');

// The last one is kept: statistics, heat map and values ask for the same tensor.
export class LogicalTensors {
  private kept: Promise<Checkpoint> | null = null;
  private name: string | null = null;
  private owner: Checkpoint | null = null;

  async reader(owner: Checkpoint, name: string): Promise<TensorReader> {
    if (this.owner !== owner || this.name !== name || !this.kept) {
      await this.clear();
      this.owner = owner;
      this.name = name;
      const made = this.make(owner, name);
      made.catch(() => {
        if (this.kept === made) this.kept = null;
      });
      this.kept = made;
    }
    return (await this.kept).tensor(0);
  }

  async clear(): Promise<void> {
    const kept = this.kept;
    this.kept = null;
    await kept?.then(
      (checkpoint) => checkpoint.close(),
      () => undefined,
    );
  }

  private async make(owner: Checkpoint, name: string): Promise<Checkpoint> {
    const plan = await owner.plan({
      operations: [
        { id: 'dequant-fp8', options: [{ name: 'dtype', values: ['float32'] }] },
        { id: 'filter', options: [{ name: 'include', values: [escapedGlob(name)] }] },
      ],
      output: 'memory',
      singleName: 'tensor.safetensors',
    });
    try {
      const sink = new MemorySink();
      await run(plan, sink);
      const tree = new BlobTree('tensor.safetensors', [{ path: 'tensor.safetensors', blob: new Blob([sink.bytes]) }], 'tensor.safetensors');
      return await openCheckpoint(tree);
    } finally {
      await plan.close();
    }
  }
}
