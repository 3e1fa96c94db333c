import { TftfError } from '../error.js';
import { quoteName } from '../names.js';

/** An option of a command. */
export interface OptionRule {
  /** Without dashes. */
  name: string;
  short?: string;
  /** How many values follow it. */
  values: number;
  /** What its values are called in the help; absent: the option is not listed. */
  shows?: string;
  help?: string;
}

export interface Arguments {
  /** Values of each option in the order given; a flag has empty lists. */
  options: Map<string, string[][]>;
  words: string[];
}

export function usage(message: string): TftfError {
  return new TftfError('usage', message);
}

/** Reads a command line. Options may stand anywhere; what follows "--" are words. */
export function parseArguments(args: string[], rules: OptionRule[]): Arguments {
  const result: Arguments = { options: new Map(), words: [] };
  for (let at = 0; at < args.length; ++at) {
    const arg = args[at]!;
    if (arg === '--') {
      result.words.push(...args.slice(at + 1));
      break;
    }
    if (!arg.startsWith('-') || arg === '-') {
      result.words.push(arg);
      continue;
    }
    const { rule, attached } = findRule(arg, rules);
    const values: string[] = [];
    if (attached !== undefined) {
      if (rule.values === 0 && !arg.startsWith('--')) {
        // "-qv" is "-q -v".
        args = [...args.slice(0, at + 1), `-${attached}`, ...args.slice(at + 1)];
        result.options.set(rule.name, [...result.options.get(rule.name) ?? [], []]);
        continue;
      }
      if (rule.values === 0) throw usage(`--${rule.name} takes no value.`);
      if (attached === '') throw usage(`--${rule.name} needs ${rule.values === 1 ? 'a value' : `${rule.values} values`}.`);
      values.push(attached);
    }
    while (values.length < rule.values) {
      if (at + 1 >= args.length) throw usage(`--${rule.name} needs ${rule.values === 1 ? 'a value' : `${rule.values} values`}.`);
      values.push(args[++at]!);
    }
    const given = result.options.get(rule.name) ?? [];
    given.push(values);
    result.options.set(rule.name, given);
  }
  return result;
}

/** "--name", "--name=value", "-n", "-nvalue". */
function findRule(arg: string, rules: OptionRule[]): { rule: OptionRule; attached?: string } {
  if (arg.startsWith('--')) {
    const equals = arg.indexOf('=');
    const name = arg.slice(2, equals < 0 ? undefined : equals);
    const rule = rules.find(one => one.name === name);
    if (rule !== undefined) return equals < 0 ? { rule } : { rule, attached: arg.slice(equals + 1) };
  } else {
    const rule = rules.find(one => one.short === arg[1]);
    if (rule !== undefined) return arg.length === 2 ? { rule } : { rule, attached: arg.slice(2) };
  }
  throw usage(`An argument was not expected: ${quoteName(arg)}.`);
}

export const flag = (args: Arguments, name: string): boolean => args.options.has(name);
/** The last value of an option. */
export const value = (args: Arguments, name: string): string | undefined => args.options.get(name)?.at(-1)?.[0];
export const values = (args: Arguments, name: string): string[] => (args.options.get(name) ?? []).map(one => one[0]!);

export function count(text: string, what: string): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(number)) throw usage(`${what} takes a number from 0, not ${quoteName(text)}.`);
  return number;
}
