// The last dequantised tensor is kept: statistics, heat map and values ask for the same one.
import type { Checkpoint, LogicalTensor } from 'tftf';

export class LogicalTensors {
  private owner: Checkpoint | null = null;
  private tensor = -1;
  private kept: Promise<LogicalTensor> | null = null;

  async reader(owner: Checkpoint, tensor: number): Promise<LogicalTensor> {
    if (!this.kept || this.owner !== owner || this.tensor !== tensor) {
      // At once, before anything is awaited: several may ask for it together.
      const cleared = this.clear();
      const made = cleared.then(() => owner.logicalTensor(tensor));
      this.owner = owner;
      this.tensor = tensor;
      this.kept = made;
      made.catch(() => {
        if (this.kept === made) this.kept = null;
      });
    }
    return this.kept;
  }

  async clear(): Promise<void> {
    const { kept } = this;
    this.kept = null;
    await kept?.then(
      (tensor) => tensor.close(),
      () => undefined,
    );
  }
}
