// Lets a run wait between two writes.
export class Gate {
  private closed: Promise<void> | null = null;
  private release = () => {};

  get open(): boolean {
    return this.closed === null;
  }
  set(closed: boolean): void {
    this.release();
    this.closed = closed ? new Promise((done) => (this.release = done)) : null;
  }
  async pass(): Promise<void> {
    while (this.closed) await this.closed;
  }
}
