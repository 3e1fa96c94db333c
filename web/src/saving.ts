// Small texts as downloads, and places for results.
export function saveText(name: string, text: string, type: string): void {
  saveBlob(name, new Blob([text], { type }));
}

export function saveBlob(name: string, blob: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export const canPickFiles = (): boolean => 'showSaveFilePicker' in window;

// Null: the person closed the dialog.
export async function pickFile(name: string): Promise<FileSystemFileHandle | null> {
  try {
    return await showSaveFilePicker({ suggestedName: name, types: [{ description: 'safetensors', accept: { 'application/octet-stream': ['.safetensors'] } }] });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') return null;
    throw error;
  }
}

export async function pickFolder(): Promise<FileSystemDirectoryHandle | null> {
  try {
    return await showDirectoryPicker({ mode: 'readwrite' });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') return null;
    throw error;
  }
}

// Asks before anything is opened for writing: to open it while the answer is still out can end the whole browser.
export async function mayWrite(handle: FileSystemHandle): Promise<boolean> {
  if ((await handle.queryPermission?.({ mode: 'readwrite' })) === 'prompt') {
    return (await handle.requestPermission({ mode: 'readwrite' })) === 'granted';
  }
  return (await handle.queryPermission?.({ mode: 'readwrite' })) !== 'denied';
}
