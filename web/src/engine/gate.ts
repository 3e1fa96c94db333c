// Lets a run wait between two writes.
export class Gate {
  private open: Promise<void> | null = null;
  private release = () => {};
  set(closed: boolean): void {
    this.release();
    this.open = closed ? new Promise((done) => (this.release = done)) : null;
  }
  async pass(): Promise<void> {
    if (this.open) await this.open;
  }
}
