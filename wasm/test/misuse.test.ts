// What callers without types, in a hurry, or in parallel do: refused by name, or as good as one after the other.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import {
  compare, lint, memorySink, openCheckpoint, pathSink, pathTree, ranksIn, readAdapter, run, statistics, urlTree,
  type Checkpoint, type OutputSink, type SourceTree,
} from 'tftf';
import { golden, safetensors, withScratch } from './support.js';

let tree: SourceTree;
let checkpoint: Checkpoint;
beforeAll(async () => {
  tree = await pathTree(join(golden, '../../docs/sample/qwen3-tiny-fp8'));
  checkpoint = await openCheckpoint(tree);
});

const wrong: any[] = [undefined, null, 5, 'x', {}, []];
const usage = { name: 'TftfError', code: expect.stringMatching(/^usage/) };
const refused = async (work: () => unknown, what: string) => expect(Promise.resolve().then(work), what).rejects.toMatchObject(usage);

test('what is no tree, no sink and no plan is refused as usage', async () => {
  for (const given of wrong) {
    const what = JSON.stringify(given) ?? 'undefined';
    for (const [name, work] of Object.entries<(value: any) => unknown>({
      openCheckpoint, statistics, readAdapter, ranksIn,
      lint: value => lint([value]), base: value => lint(tree, { base: value ?? {} }), compare: value => compare(tree, value),
      run: value => run(value, memorySink()),
    })) await refused(() => work(given), `${name}(${what})`);
    const plan = await checkpoint.plan({ operations: [], output: 'x' });
    await refused(() => run(plan, given), `run(plan, ${what})`);
    // That was no run: it still can be.
    await run(plan, memorySink());
    await plan.close();
  }
  for (const given of [undefined, null, 5, {}] as any[]) {
    for (const work of [pathTree, urlTree, pathSink]) await refused(() => work(given), work.name);
  }
});

test('options of another kind are refused, not taken for absent ones', async () => {
  const tensor = checkpoint.tensor(0);
  const cases: Record<string, () => unknown> = {};
  const lists = { include: '*', names: 5, exclude: [5] };
  for (const [key, value] of Object.entries<any>(lists)) cases[`statistics ${key}`] = () => statistics(tree, { [key]: value });
  for (const key of ['only', 'ignore', 'severity']) cases[`lint ${key}`] = () => lint(tree, { [key]: 'ST001' as any });
  for (const bad of [-1, 0.5, NaN, Infinity, '8'] as any[]) {
    cases[`bins ${bad}`] = () => tensor.statistics({ bins: bad });
    cases[`statistics bins ${bad}`] = () => statistics(tree, { bins: bad });
    cases[`maxIssues ${bad}`] = () => lint(tree, { maxIssues: bad });
    cases[`maxHeader ${bad}`] = () => openCheckpoint(tree, { maxHeader: bad });
    cases[`maxShardSize ${bad}`] = () => checkpoint.plan({ operations: [], output: 'x', maxShardSize: bad });
    cases[`rowBegin ${bad}`] = () => tensor.heatMap({ rowBegin: bad });
    cases[`width ${bad}`] = () => checkpoint.infoText({ width: bad });
    cases[`values ${bad}`] = () => tensor.values(bad, 1);
    cases[`bytes ${bad}`] = () => tensor.bytes(0, bad);
    cases[`tensor ${bad}`] = () => checkpoint.tensor(bad);
    cases[`logicalTensor ${bad}`] = () => checkpoint.logicalTensor(bad);
  }
  for (const index of [2 ** 32, 1e9]) cases[`tensor ${index}`] = () => checkpoint.tensor(index);
  for (const bad of ['1', {}] as any[]) cases[`tolerance ${bad}`] = () => compare(tree, tree, { tolerance: bad });
  for (const bad of ['yes', 1] as any[]) cases[`logical ${bad}`] = () => statistics(tree, { logical: bad });
  for (const bad of [5, null, {}] as any[]) {
    cases[`info ${bad}`] = () => checkpoint.info(bad);
    cases[`matches ${bad}`] = () => checkpoint.matches(bad);
    cases[`signal ${bad}`] = () => statistics(tree, { signal: bad ?? 5 });
    cases[`onProgress ${bad}`] = () => statistics(tree, { onProgress: bad ?? 5 });
  }
  for (const bad of [undefined, null, {}, { operations: null }, { operations: [null] }, { operations: [{}] },
    { operations: [{ id: 'cast', options: 'dtype' }] }, { operations: [{ id: 'cast', options: [{ name: 'dtype', values: 'float32' }] }] },
    { operations: [], output: 5 }] as any[]) cases[`plan ${JSON.stringify(bad)}`] = () => checkpoint.plan(bad);
  for (const singleName of ['', '.', '..', '../x.safetensors', '/x', 'a/b', 'a\0b', 5] as any[]) {
    cases[`singleName ${singleName}`] = () => checkpoint.plan({ operations: [], output: 'x', singleName });
  }
  for (const [what, work] of Object.entries(cases)) await refused(work, what);
});

test('addresses that are none are refused as usage', async () => {
  for (const address of ['https://:::', 'https://[bad', 'http://h/100%.safetensors', 'http://h/%ff.safetensors', 'https://a b/',
    'http://h/a%2F..%2Fb', 'http://h/%2e%2e%2fx', 'http://h/a%5Cb', 'file:///etc/passwd']) await refused(() => urlTree(address), address);
  await refused(() => urlTree('hf://org/name', { hub: 'nonsense' }), 'hub');
});

test('closing twice does nothing, and what is closed says so', async () => {
  const one = await openCheckpoint(tree);
  const tensor = one.tensor(0);
  const logical = await one.logicalTensor(one.info().tensors.findIndex(row => row.layout !== null && row.logical !== null));
  const plan = await one.plan({ operations: [], output: 'x' });
  const report = await lint(tree);
  const figures = await statistics(tree);
  for (const thing of [logical, plan, report, figures, one]) {
    await thing.close();
    await thing.close();
  }
  for (const work of [() => one.infoJson(), () => one.tensor(0), () => one.operations(), () => tensor.values(0, 1), () => tensor.bytes(0, 1),
    () => tensor.statistics(), () => tensor.heatMap(), () => logical.values(0, 1), () => plan.text(), () => plan.outputs,
    () => run(plan, memorySink()), () => report.render('text'), () => figures.text()]) await refused(work, String(work));
});

test('a checkpoint that is closed meanwhile ends what goes on, or lets it end', async () => {
  const whole = await checkpoint.tensor(0).statistics();
  for (let turns = 0; turns < 12; ++turns) {
    const one = await openCheckpoint(tree);
    const tensor = one.tensor(0);
    const going = [tensor.statistics(), tensor.heatMap(), tensor.values(0, 64), one.logicalTensor(1).then(view => view.values(0, 16))]
      .map(promise => promise.then(value => ({ value }), error => ({ error })));
    for (let i = 0; i < turns; ++i) await Promise.resolve();
    await one.close();
    const ends: any[] = await Promise.all(going);
    for (const { error } of ends) if (error !== undefined) expect(['usage', 'refused-unsupported']).toContain(error.code);
    if (ends[0].value !== undefined) expect(ends[0].value).toEqual(whole);
  }
});

test('reads of one file at once give what they give one by one', async () => {
  const tensor = checkpoint.tensor(0);
  const places = Array.from({ length: 12 }, (_, i) => 64 * i);
  const alone: Uint8Array[] = [];
  for (const place of places) alone.push(await tensor.bytes(place, 32));
  expect(await Promise.all(places.map(place => tensor.bytes(place, 32)))).toEqual(alone);
  expect(new Set(alone.map(String)).size).toBe(places.length);
});

test('runs at once from one checkpoint give the same bytes', async () => {
  const sinks = Array.from({ length: 4 }, () => memorySink());
  await Promise.all(sinks.map(async sink => {
    const plan = await checkpoint.plan({ operations: [{ id: 'dequant-fp8' }], output: 'x' });
    await run(plan, sink);
    await plan.close();
  }));
  for (const sink of sinks) expect(sink.files).toEqual(sinks[0]!.files);
});

test('a cancelled task does not cancel another that waits for the same file', async () => {
  const bytes = safetensors({ a: { dtype: 'U8', shape: [4], data_offsets: [0, 4] } }, new Uint8Array(4));
  const first = new AbortController();
  let asked = (): void => undefined;
  const waiting = new Promise<void>(resolve => { asked = resolve; });
  const get = async (url: unknown, init?: RequestInit): Promise<Response> => {
    if (String(url).endsWith('.safetensors')) {
      return new Response(bytes as BodyInit, { status: 206, headers: { 'Content-Range': `bytes 0-${bytes.length - 1}/${bytes.length}` } });
    }
    if (!first.signal.aborted) {
      asked();
      await new Promise((_, fail) => init!.signal!.addEventListener('abort', () => fail(new Error('aborted'))));
    }
    return new Response(null, { status: 404 });
  };
  const remote = await urlTree('http://host/', { fetch: (async (url: unknown, init?: RequestInit) =>
    (String(url).endsWith('index.json') ? new Response(null, { status: 404 }) : get(url, init))) as typeof fetch });
  const cancelled = remote.walk(first.signal).catch(error => error.code);
  const other = remote.walk();
  await waiting;
  first.abort();
  expect(await cancelled).toBe('interrupted');
  expect((await other).map(entry => entry.path)).toEqual(['model.safetensors']);
});

test('a sink that throws, wherever it does, is asked to undo what it did', async () => {
  for (const place of ['begin', 'create', 'write', 'close', 'publish'] as const) {
    const calls: string[] = [];
    const fail = (at: string): void => {
      calls.push(at);
      if (at === place) throw new Error(`no ${at}`);
    };
    const sink: OutputSink = {
      name: 's', block: 1 << 20,
      begin: async () => fail('begin'),
      create: async () => {
        fail('create');
        return { write: async () => fail('write'), close: async () => fail('close') };
      },
      publish: async () => fail('publish'),
      abort: async () => { calls.push('abort'); },
    };
    const plan = await checkpoint.plan({ operations: [], output: 'x' });
    await expect(run(plan, sink), place).rejects.toThrow(`no ${place}`);
    expect(calls.at(-1), place).toBe('abort');
    await plan.close();
  }
});

test('what must not be written is refused before the input is read again', () => withScratch(async folder => {
  writeFileSync(join(folder, 'note.txt'), '');
  const plan = await checkpoint.plan({ operations: [{ id: 'dequant-fp8' }], output: 'x' });
  const stages: string[] = [];
  await expect(run(plan, pathSink(folder), { onProgress: ({ stage }) => stages.push(stage) })).rejects.toMatchObject({ code: 'refused-output' });
  expect(stages).toEqual([]);
  await plan.close();
}));

test('tasks of one signal leave no listeners on it', async () => {
  const controller = new AbortController();
  let listeners = 0;
  const { signal } = controller;
  const add = signal.addEventListener.bind(signal);
  signal.addEventListener = (type: string, listener: any, options?: any) => {
    ++listeners;
    options?.signal?.addEventListener('abort', () => --listeners);
    add(type, listener, options);
  };
  const bytes = safetensors({ a: { dtype: 'U8', shape: [300_000], data_offsets: [0, 300_000] } }, new Uint8Array(300_000));
  const get = async (_: unknown, init?: RequestInit): Promise<Response> => {
    const [begin, last] = /(\d+)-(\d+)/.exec(new Headers(init!.headers).get('range')!)!.slice(1).map(Number) as [number, number];
    const part = bytes.subarray(begin, last + 1);
    return new Response(part as BodyInit, { status: 206, headers: { 'Content-Range': `bytes ${begin}-${begin + part.length - 1}/${bytes.length}` } });
  };
  const remote = await urlTree('http://host/a.safetensors', { fetch: get as typeof fetch, signal });
  const one = await openCheckpoint(remote, { signal });
  for (let i = 0; i < 20; ++i) await one.tensor(0).bytes(200_000, 8, { signal });
  expect(listeners).toBe(0);
  await one.close();
});
