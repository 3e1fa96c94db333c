// Golden cases of graft, convert and adapters: the program in Node gives the native one's files and words.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { contents, golden, native, node, readJson, withScratch, type Ended } from './support.js';

interface Case { id: string; argv: string[] }

const casesOf = (set: string): Case[] => readJson(join(golden, set, 'manifest.json')).cases;
const grafts = casesOf('experts').filter(({ argv }) => argv[0] === 'graft');
// The others have a test of each in the browser, by the same module.
const others = casesOf('experts').filter(({ argv }) => argv[0] !== 'graft').filter((_, i) => i % 12 === 0);
const adapters = casesOf('adapters').filter(({ argv }) => argv[1] === 'convert').filter((_, i) => i % 6 === 0);

function hold(set: string, argv: string[]): void {
  const run = (program: (args: string[]) => Ended) => withScratch(folder => {
    const ended = program([...argv.map(word => word.replaceAll('{out}', join(folder, 'out'))), '--no-progress']);
    return { status: ended.status, words: (ended.out + ended.err).replaceAll(folder, 'FOLDER'), made: contents(folder) };
  });
  expect(run(args => node(args, join(golden, set)))).toEqual(run(args => native('tftf', args, join(golden, set))));
}

test.each([...grafts.map(one => ['experts', one.id, one.argv]), ...others.map(one => ['experts', one.id, one.argv]),
  ...adapters.map(one => ['adapters', one.id, one.argv])] as [string, string, string[]][])('%s %s', (set, _, argv) => hold(set, argv));

test('files that are taken along keep their mode and time', () => withScratch(folder => {
  const source = join(golden, 'experts/models/llava-v4');
  const out = join(folder, 'out');
  expect(node(['graft', '-i', join(golden, 'experts/models/graft-llava-lost'), '--from', source, '--missing', '-o', out], folder).status).toBe(0);
  const taken = readdirSync(source).filter(name => name.includes('processor'));
  expect(taken.length).toBeGreaterThan(0);
  for (const name of taken) {
    expect(statSync(join(out, name)).mode & 0o777).toBe(statSync(join(source, name)).mode & 0o777);
    expect(Math.trunc(statSync(join(out, name)).mtimeMs)).toBe(Math.trunc(statSync(join(source, name)).mtimeMs));
  }
}));
