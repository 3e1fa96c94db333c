// From what the page was given to a tree that the package reads.
import { BlobTree, handleTree, urlTree, type SourceTree, type TaskOptions } from 'tftf';
import type { Origin } from './messages';

export async function treeOf(origin: Origin, task: TaskOptions): Promise<SourceTree> {
  switch (origin.kind) {
    case 'handle':
      return handleTree(origin.handle as FileSystemFileHandle | FileSystemDirectoryHandle);
    case 'files': {
      const files = origin.files.map(({ path, file }) => ({ path, blob: file }));
      const lone = files.length === 1 && !files[0]!.path.includes('/') ? files[0]!.path : undefined;
      return new BlobTree(origin.label, files, lone);
    }
    case 'url':
      return urlTree(origin.url, { ...(origin.hub !== undefined && { hub: origin.hub }), ...(task.signal && { signal: task.signal }) });
  }
}
