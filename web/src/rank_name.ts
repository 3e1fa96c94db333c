// "rank_0.safetensors", "adapter.rank03.safetensors": one rank's part of an adapter.
export const isRank = (name: string): boolean => /(^|[^a-z])rank[-_.]?\d+/i.test(name) && name.endsWith('.safetensors');
