import type { SourceTree } from './source.js';

interface Configured {
  /** An adapter_config.json instead of what is found: the main file of its tree. */
  config?: SourceTree;
}

/** What is merged: one input that holds an adapter, or the files of a training run's ranks. */
export type AdapterSource = Configured & (
  | {
    /** adapter_model.safetensors, its folder, a training folder, or a distributed checkpoint (PyTorch DCP). */
    tree: SourceTree;
    /** That file of the tree and no other. */
    file?: string;
    /** Nothing but distributed checkpoints will do. */
    distributed?: boolean;
  }
  | {
    /** One file of each rank, in their order; each tensor is put together along `shardDim` (0). */
    ranks: SourceTree[];
    shardDim?: number;
    /** As the account names it; the first rank's when absent. */
    given?: string;
    /** For the account: how the files were found. */
    notices?: string[];
  });
