/**
 * - `headers`: shards read (counted in files)
 * - `planning`: small values read (files)
 * - `reading`: the data pass of lint and statistics (bytes)
 * - `comparing`: tensors with equal hashes (bytes)
 * - `measuring`: a phase that writes nothing (bytes)
 * - `writing`: bytes written
 * - `finishing`: files closed and renamed (files); in browsers one step may take as long as writing did
 */
export type Stage = 'headers' | 'planning' | 'reading' | 'comparing' | 'measuring' | 'writing' | 'finishing';

export interface Progress {
  stage: Stage;
  done: number;
  total: number;
  /** Tensor or file in work. */
  item?: string;
}

/** What everything that takes time accepts. */
export interface TaskOptions {
  /** Aborted: the promise is rejected with code 'interrupted', after what was begun has been cleaned up. */
  signal?: AbortSignal;
  /** Called at most some ten times a second, and at the end of each stage. */
  onProgress?: (progress: Progress) => void;
}
