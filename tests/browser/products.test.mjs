// Every golden case of a conversion gives the native bytes in Chromium, or is refused as there.
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { at, scratch, test } from './harness.mjs';
import { filesBelow, nativeProduct, productIn, servePackage } from './product.mjs';

const casesOf = (set) => JSON.parse(readFileSync(at('tests/golden', set, 'manifest.json'), 'utf8')).cases;

/** Values of options by name, of words behind the command's own; a flag's is []. */
function optionsOf(words) {
  const options = [];
  for (let i = 0; i < words.length; i++) {
    if (!/^--?[a-z]/.test(words[i])) continue;
    const alone = i + 1 === words.length || /^--?[a-z]/.test(words[i + 1]);
    options.push({ name: words[i].replace(/^--?/, ''), values: alone ? [] : [words[++i]] });
  }
  return options;
}

/** Holds cases ({id, argv, models, work, words, out}) in the page against the native program. */
async function hold(context, cases, { compared, refused }) {
  const { stop, address } = await servePackage();
  const counts = { compared: 0, refused: 0 };
  try {
    const page = await context.newPage();
    await page.goto(address);
    for (const { id, models, work, words, out } of cases) {
      const expected = nativeProduct(words, out);
      const found = await productIn(page, models, work);
      assert.equal(found.refused !== undefined, expected.refused !== undefined, `${id}: ${found.refused ?? `natively ${expected.refused}`}`);
      if (expected.refused) counts.refused += 1;
      else {
        assert.deepEqual(found.hashes, expected.hashes, id);
        counts.compared += 1;
      }
    }
  } finally {
    stop();
  }
  console.log(`      ${counts.compared} compared, ${counts.refused} refused`);
  assert.ok(counts.compared >= compared && counts.refused >= refused, `${counts.compared} compared, ${counts.refused} refused`);
}

/** The input of a quantised case, without what it is expected to become. */
function copyInput(given, to) {
  const alone = statSync(given).isFile();
  const folder = alone ? dirname(given) : given;
  mkdirSync(to, { recursive: true });
  for (const name of readdirSync(folder)) {
    const own = alone ? name === basename(given) || !name.endsWith('.safetensors') : !name.startsWith('expected');
    if (own) cpSync(join(folder, name), join(to, name), { recursive: true });
  }
}

test('every quantised golden case gives the native bytes, or is refused as there', async ({ context }) => {
  const cases = [];
  for (const set of ['quant', 'quant2']) {
    for (const { id, argv } of casesOf(set)) {
      if (!['dequant', 'quantize', 'repack'].includes(argv[0])) continue;
      const input = join(scratch(), 'in');
      copyInput(at('tests/golden', set, argv[argv.indexOf('-i') + 1]), input);
      const options = optionsOf(argv.slice(1)).filter(({ name }) => name !== 'i' && name !== 'o');
      const out = join(scratch(), 'out');
      cases.push({
        id, out, models: { input: filesBelow(input) }, work: { operations: [{ id: argv[0], options }], command: argv[0] },
        words: [argv[0], '-i', input, '-o', out, ...options.flatMap(({ name, values }) => [`--${name}`, ...values])],
      });
    }
  }
  await hold(context, cases, { compared: 100, refused: 20 });
});

test('every golden model of compressed-tensors becomes the native bytes in both directions', async ({ context }) => {
  const cases = [];
  const add = (id, files, command, options, given = {}) => {
    const input = join(scratch(), 'in');
    mkdirSync(input);
    for (const [name, from] of Object.entries(files)) cpSync(from, join(input, name));
    const out = join(scratch(), 'out');
    const own = Object.entries(given).map(([name, path]) => ({ name, values: [path] }));
    const words = [...options, ...own].flatMap(({ name, values }) => [`--${name}`, ...values]);
    const bytes = Object.fromEntries(Object.entries(given).map(([name, path]) => [name, readFileSync(path).toString('base64')]));
    cases.push({
      id: `${id} ${command}`, out, models: { input: filesBelow(input), files: bytes },
      work: { operations: [{ id: command, options: [...options, ...own] }], command }, words: [command, '-i', input, '-o', out, ...words],
    });
  };
  for (const { id } of casesOf('compressed-tensors')) {
    const file = (name) => at('tests/golden/compressed-tensors', id, name);
    if (!existsSync(file('dense.safetensors'))) continue;
    const config = file('config.json');
    add(id, { 'config.json': config, 'model.safetensors': file('model.safetensors') }, 'dequant', [{ name: 'dtype', values: ['native'] }]);
    add(id, { 'model.safetensors': file('dense.safetensors') }, 'quantize', [{ name: 'to', values: ['compressed-tensors'] }], {
      scheme: config, ...(existsSync(file('qparams.safetensors')) && { qparams: file('qparams.safetensors') }),
    });
  }
  await hold(context, cases, { compared: 80, refused: 0 });
});

// Which model of the command line is what to the package.
const roles = { i: 'input', b: 'input', from: 'from', a: 'adapter', base: 'base' };

/** A case of a manifest with {out} as an operation of the page. */
function caseOf(set, { id, argv }) {
  const adapter = argv[0] === 'adapter';
  const models = {};
  const rest = [];
  for (const option of optionsOf(argv.slice(adapter ? 2 : 1))) {
    const role = option.name === 'base' && !adapter ? 'input' : roles[option.name];
    if (role !== undefined) models[role] = filesBelow(at('tests/golden', set, option.values[0]));
    if (option.name === 'from') rest.push({ name: 'from', values: ['from'] });
    if (option.name === 'a') rest.push({ name: 'adapter', values: ['adapter'] });
    if (role === undefined && option.name !== 'o' && option.name !== 'json') rest.push(option);
  }
  const out = join(scratch(), 'out');
  const words = argv.map((word, i) => (word.includes('{out}') ? word.replaceAll('{out}', out)
    : /^-[iba]$|^--(from|base)$/.test(argv[i - 1] ?? '') ? at('tests/golden', set, word) : word));
  const place = words[argv.findIndex((word) => word === '-o') + 1];
  const single = place.endsWith('.safetensors');
  return {
    id, models, words, out: place,
    work: adapter ? { words, ...(single && { singleName: basename(place) }) } : { operations: [{ id: argv[0], options: rest }], command: argv[0] },
  };
}

test('every golden case of experts gives the native bytes, or is refused as there', async ({ context }) => {
  await hold(context, casesOf('experts').map((one) => caseOf('experts', one)), { compared: 200, refused: 30 });
});

test('every golden adapter is converted to the native bytes, or is refused as there', async ({ context }) => {
  const cases = casesOf('adapters').filter(({ argv }) => argv[1] === 'convert').map((one) => caseOf('adapters', one));
  await hold(context, cases, { compared: 40, refused: 5 });
});
