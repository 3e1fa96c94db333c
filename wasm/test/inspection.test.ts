// The package tells of every golden case what the native programs tell, byte for byte.
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { lint, openCheckpoint, pathTree, rulesText, TftfError } from 'tftf';
import { golden, native, readJson } from './support.js';

const root = join(golden, 'safetensors');
interface Case {
  id: string;
  input: string;
}
const cases: Case[] = readJson(join(root, 'manifest.json')).cases;
// Paths stand in the reports as they are given.
process.chdir(root);

test('there are cases', () => expect(cases.length).toBeGreaterThan(200));

test.each(cases)('lint --json of $id', async ({ id, input }) => {
  const { options } = readJson(`expect/${id}.json`) as { options?: { data?: boolean; base?: string } };
  const args = ['--format', 'json', '--max-issues', '0'];
  if (options?.data) args.push('--data');
  if (options?.base) args.push('--base', options.base);
  const expected = native('tftf-lint', [...args, input], root);
  const report = await lint(await pathTree(input), {
    maxIssues: 0, data: options?.data ?? false,
    ...(options?.base ? { base: await pathTree(options.base) } : {}),
  });
  expect(report.render('json')).toBe(expected.out);
  expect(report.failed ? 1 : 0).toBe(expected.status);
  report.close();
});

test.each(cases)('info --json of $id', async ({ input }) => {
  const expected = native('tftf', ['info', '--json', input], root);
  try {
    const checkpoint = await openCheckpoint(await pathTree(input));
    expect(checkpoint.infoJson()).toBe(expected.out);
    expect(checkpoint.broken() === null ? 0 : 1).toBe(expected.status);
    await checkpoint.close();
  } catch (error) {
    if (!(error instanceof TftfError)) throw error;
    expect({ code: error.code, message: error.message }).toMatchObject({
      code: JSON.parse(expected.out).error.code, message: JSON.parse(expected.out).error.message,
    });
  }
});

test.each(['text', 'sarif', 'github', 'junit'] as const)('%s of a folder with many findings', async format => {
  const input = 'cases';
  const expected = native('tftf-lint', ['--format', format, '--data', input], root);
  const report = await lint(await pathTree(input), { data: true });
  expect(report.render(format)).toBe(expected.out);
  report.close();
});

test('several paths in one report', async () => {
  const paths = cases.slice(0, 5).map(one => one.input);
  const expected = native('tftf-lint', ['--format', 'json', ...paths], root);
  const report = await lint(await Promise.all(paths.map(path => pathTree(path))));
  expect(report.render('json')).toBe(expected.out);
  report.close();
});

test('the catalogue', async () => {
  expect(await rulesText('', 'json')).toBe(native('tftf-lint', ['rules', '--json'], root).out);
  expect(await rulesText('ST041')).toBe(native('tftf-lint', ['rules', 'ST041'], root).out);
});

test('contradicting options are refused as usage', async () => {
  const options = { only: ['ST041'], ignore: ['ST042'] };
  await expect(lint(await pathTree('cases'), options)).rejects.toMatchObject({ code: 'usage' });
});
