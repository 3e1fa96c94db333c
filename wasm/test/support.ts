import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const top = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

export const golden = top('tests/golden');
export const packageFolder = top('build/wasm/package');
const programs = process.env['TFTF_BIN'] ?? top('build/release/bin');

export interface Ended {
  status: number;
  out: string;
  err: string;
}

/** Runs a native program; it must have been built (cmake --build --preset release). */
export function native(program: 'tftf' | 'tftf-lint', args: string[], cwd: string): Ended {
  const path = join(programs, program);
  if (!existsSync(path)) throw new Error(`${path} is not there: build the release preset first.`);
  return ended(path, args, cwd);
}

/** Runs the package's program in Node. */
export function node(args: string[], cwd: string): Ended {
  return ended(process.execPath, [join(packageFolder, 'bin/tftf.js'), ...args], cwd);
}

function ended(program: string, args: string[], cwd: string): Ended {
  const run = spawnSync(program, args, { cwd, encoding: 'utf8', maxBuffer: 1 << 28 });
  if (run.error) throw run.error;
  return { status: run.status ?? -1, out: run.stdout, err: run.stderr };
}

/** A folder of its own for one test, removed afterwards. */
export function withScratch<T>(work: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'tftf-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  let result: T;
  try {
    result = work(folder);
  } catch (error) {
    remove();
    throw error;
  }
  if (result instanceof Promise) return result.finally(remove) as T;
  remove();
  return result;
}

/** Names and contents of everything below a folder, or of a file. */
export function contents(path: string): Record<string, string> {
  if (!existsSync(path)) return {};
  if (statSync(path).isFile()) return { '': readFileSync(path, 'latin1') };
  const files: Record<string, string> = {};
  for (const name of (readdirSync(path, { recursive: true }) as string[]).sort()) {
    const full = join(path, name);
    if (statSync(full).isFile()) files[name] = readFileSync(full, 'latin1');
  }
  return files;
}

export function readJson(path: string): any {
  return JSON.parse(readFileSync(path, 'utf8'));
}

/** A .safetensors file's bytes from its header's text and its data. */
export function safetensors(header: unknown, data: Uint8Array): Uint8Array {
  let text = typeof header === 'string' ? header : JSON.stringify(header);
  text = text.padEnd(Math.ceil(text.length / 8) * 8, ' ');
  const bytes = new Uint8Array(8 + text.length + data.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(new TextEncoder().encode(text), 8);
  bytes.set(data, 8 + text.length);
  return bytes;
}

