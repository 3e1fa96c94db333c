/** Runs `work` over all items, at most `most` at a time; rejects with the first failure when all have ended. */
export async function inParallel<T>(items: T[], most: number, work: (item: T) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < items.length) await work(items[next++]!);
  };
  const results = await Promise.allSettled(Array.from({ length: Math.min(most, items.length) }, worker));
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}
