// From drops, pickers and addresses to origins that the worker can open.
import type { Origin } from './engine/messages';
import { isAdapter, offerMerge } from './conversion';
import { addFailure, failureOf, opening, openFailures, openOrigin, type Input } from './inputs';
import { isRank } from './rank_name';

type Dropped = { handle: FileSystemHandle | null; entry: FileSystemEntry | null; file: File | null };

const shardName = /-\d{5}-of-\d{5}\.safetensors$/;

// Loose files that belong together are one model; unrelated weight files are opened one by one, to be compared.
const belongTogether = (names: string[]): boolean =>
  names.length > 1 && (names.some((name) => shardName.test(name) || name.endsWith('.json')) || names.every(isRank) || !names.every((name) => name.endsWith('.safetensors')));

async function filesBelow(entry: FileSystemEntry, prefix: string, found: { path: string; file: File }[]): Promise<void> {
  if (entry.isFile) {
    const file = await new Promise<File>((done, fail) => (entry as FileSystemFileEntry).file(done, fail));
    found.push({ path: prefix + entry.name, file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const batch = await new Promise<FileSystemEntry[]>((done, fail) => reader.readEntries(done, fail));
    if (batch.length === 0) return;
    for (const child of batch) await filesBelow(child, `${prefix}${entry.name}/`, found);
  }
}

// `files` with the common folder as label, when there is one.
function filesOrigin(files: { path: string; file: File }[], label: string): Origin {
  const folder = /^([^/]+)\//.exec(files[0]?.path ?? '')?.[1];
  if (folder !== undefined && files.every(({ path }) => path.startsWith(`${folder}/`))) {
    return { kind: 'files', label: folder, files: files.map(({ path, file }) => ({ path: path.slice(folder.length + 1), file })) };
  }
  return { kind: 'files', label, files };
}

// Must be called in the event's handler: the items are gone afterwards.
export function takeDropped(data: DataTransfer): Promise<Dropped[]> {
  const items = [...data.items].filter((item) => item.kind === 'file');
  const taken = items.map((item) => ({
    handle: 'getAsFileSystemHandle' in item ? item.getAsFileSystemHandle().catch(() => null) : Promise.resolve(null),
    entry: item.webkitGetAsEntry(),
    file: item.getAsFile(),
  }));
  return Promise.all(taken.map(async ({ handle, entry, file }) => ({ handle: (await handle) ?? null, entry, file })));
}

// An adapter among loose files of a model: its files apart from the others.
function adapterFiles(names: string[]): Set<string> {
  const own = names.filter((name) => name === 'adapter_model.safetensors' || name === 'adapter_config.json');
  return new Set(own.includes('adapter_model.safetensors') ? own : []);
}

async function openLoose(files: { path: string; file: File }[]): Promise<(Input | null)[]> {
  const own = adapterFiles(files.map(({ path }) => path));
  const groups = [files.filter(({ path }) => !own.has(path)), files.filter(({ path }) => own.has(path))].filter((group) => group.length > 0);
  const opened: (Input | null)[] = [];
  for (const group of groups) opened.push(await openOrigin({ kind: 'files', label: group.length === 1 ? group[0]!.path : group.every(({ path }) => own.has(path)) ? 'adapter' : `${group.length} files`, files: group }));
  return opened;
}

// What was opened together: an adapter with its base is to be merged.
async function offer(opened: (Input | null)[]): Promise<void> {
  const there = opened.filter((input) => input !== null);
  const adapters = there.filter(isAdapter);
  if (there.length === 2 && adapters.length === 1) await offerMerge(there.find((input) => input !== adapters[0])!, adapters[0]!);
}

// Messages about what was opened before go when something new is.
function begin(): void {
  if (opening.value === null) openFailures.value = [];
}

export async function openDropped(dropped: Dropped[]): Promise<void> {
  const handles = dropped.map(({ handle }) => handle);
  const names = dropped.map(({ handle, entry, file }) => handle?.name ?? entry?.name ?? file?.name ?? '');
  const loose = dropped.every(({ handle, entry }) => (handle ? handle.kind === 'file' : !entry || entry.isFile));
  if (dropped.length === 0) return;
  begin();
  try {
    if (loose && belongTogether(names)) {
      const files = await Promise.all(
        dropped.map(async ({ handle, file }) => ({ path: (handle ?? file)!.name, file: handle ? await (handle as FileSystemFileHandle).getFile() : file! })),
      );
      await offer(await openLoose(files));
      return;
    }
    const opened: (Input | null)[] = [];
    for (const [i, { entry, file }] of dropped.entries()) {
      const handle = handles[i];
      if (handle) {
        opened.push(await openOrigin({ kind: 'handle', label: handle.name, handle }));
        continue;
      }
      const files: { path: string; file: File }[] = [];
      if (entry) await filesBelow(entry, '', files);
      else if (file) files.push({ path: file.name, file });
      opened.push(await openOrigin(filesOrigin(files, names[i]!)));
    }
    await offer(opened);
  } catch (error) {
    addFailure(names[0]!, { ...failureOf(error), code: 'io-read' });
  }
}

export async function openPicked(list: FileList | null): Promise<void> {
  const files = [...(list ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
  if (files.length === 0) return;
  begin();
  const inFolder = files.some(({ path }) => path.includes('/'));
  if (inFolder) {
    await openOrigin(filesOrigin(files, `${files.length} files`));
  } else if (belongTogether(files.map(({ path }) => path))) {
    await offer(await openLoose(files));
  } else {
    const opened: (Input | null)[] = [];
    for (const one of files) opened.push(await openOrigin({ kind: 'files', label: one.path, files: [one] }));
    await offer(opened);
  }
}

export async function openAddress(text: string): Promise<void> {
  const url = text.trim();
  const hub = new URLSearchParams(location.search).get('hub');
  if (url === '') return;
  // A server that does not answer is given up for another one.
  if (opening.value?.address) opening.value.abort.abort();
  begin();
  await openOrigin({ kind: 'url', label: url.replace(/^https?:\/\//, ''), url, ...(hub !== null && { hub }) });
}

const exampleFiles = ['config.json', 'model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors', 'model.safetensors.index.json'];

export async function openExample(): Promise<void> {
  begin();
  try {
    const files = await Promise.all(
      exampleFiles.map(async (path) => {
        const response = await fetch(new URL(`example/${path}`, document.baseURI));
        if (!response.ok) throw new Error(`The server answered ${response.status} for ${path}.`);
        return { path, file: new File([await response.blob()], path) };
      }),
    );
    await openOrigin({ kind: 'files', label: 'qwen3-tiny-fp8', files });
  } catch (error) {
    const { message } = failureOf(error);
    addFailure('The example', { code: 'io-read', message: `The example could not be fetched: ${message} Without a network it is there only if it has been opened before.`, file: null, tensor: null, expected: null, found: null });
  }
}
