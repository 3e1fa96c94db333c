function stemOf(name: string): string | undefined {
  return (/^(.+)\.safetensors\.index\.json$/.exec(name) ?? /^(.+)-\d+-of-\d+\.safetensors$/.exec(name))?.[1];
}

/** Shards in a folder that belong to an earlier result of the same stems: what `names` has written replaces them. */
export function staleShards(names: string[], listed: string[]): string[] {
  const keep = new Set(names);
  const stems = new Set(names.map(stemOf).filter(stem => stem !== undefined));
  if (!names.some(name => name.endsWith('.index.json'))) return [];
  return listed.filter(name => !keep.has(name) && stems.has(stemOf(name)!));
}
