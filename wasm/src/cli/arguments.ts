import { call, loadCore } from '../core.js';
import { TftfError } from '../error.js';
import type { Operation } from '../transform.js';

/** A command line as the core has read it by its table of commands: known, complete, values checked. */
export interface CommandLine {
  wish: 'run' | 'help' | 'version';
  /** "colibri resolve" */
  path: string;
  /** In the order given; a flag has no values. */
  options: { name: string; values: string[] }[];
  words: string[];
  operations: Operation[];
  /** Its text, where help is wished for. */
  help: string | null;
  /** As given. */
  arguments: string[];
}

export async function readCommandLine(args: string[]): Promise<CommandLine> {
  const core = await loadCore();
  return { ...JSON.parse(call(core, () => core.commandLine(JSON.stringify(args)))), arguments: args };
}

export function usage(message: string): TftfError {
  return new TftfError('usage', message);
}

export const flag = (line: CommandLine, name: string): boolean => line.options.some(option => option.name === name);
export const values = (line: CommandLine, name: string): string[] =>
  line.options.filter(option => option.name === name).flatMap(option => option.values);
export const value = (line: CommandLine, name: string): string | undefined => values(line, name).at(-1);
/** Of an option that takes a whole number. */
export const count = (line: CommandLine, name: string): number | undefined => {
  const text = value(line, name);
  return text === undefined ? undefined : Number(text);
};
/** Of an option that takes a size. */
export async function size(line: CommandLine, name: string): Promise<number | undefined> {
  const text = value(line, name);
  if (text === undefined) return undefined;
  const core = await loadCore();
  return call(core, () => core.parseSize(text));
}
