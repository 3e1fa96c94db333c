// What happens at once: drops while something opens, second clicks, models that are closed while they are read.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { assertNoComplaints, clearStorage, drop, opened, openPage, safetensors, sample, scratch, storedSizes, stubPickers, tab, test } from './harness.mjs';

const plain = (folder, name, bytes = 64) => {
  const path = join(folder, name);
  writeFileSync(path, safetensors([['weight', 'U8', [bytes], Buffer.alloc(bytes, 1)]]));
  return path;
};
const tabs = async (page) => (await page.locator('.input-tab > button:first-child').allInnerTexts()).map((name) => name.trim());

test('what is dropped while something opens is opened, too', async ({ context, address }) => {
  const folder = scratch();
  const page = await openPage(context, address);
  const many = ['a', 'b', 'c', 'd'].map((name) => plain(folder, `${name}.safetensors`));
  const later = ['e', 'f'].map((name) => plain(folder, `${name}.safetensors`));
  await drop(page, many);
  // The browser itself loses a drop that comes while it still hands over the one before.
  await page.locator('.input-tab, .opening-state').first().waitFor();
  await drop(page, later);
  await page.locator('.input-tab').nth(5).waitFor();
  assert.deepEqual((await tabs(page)).sort(), [...'abcdef'].map((name) => `${name}.safetensors`));
  assertNoComplaints(page);
});

test('of several files each that cannot be opened says why', async ({ context, address }) => {
  const folder = scratch();
  const page = await openPage(context, address);
  const broken = ['one', 'two'].map((name) => {
    const path = join(folder, `${name}.safetensors`);
    writeFileSync(path, `${name} is no model`);
    return path;
  });
  await drop(page, [broken[0], plain(folder, 'good.safetensors'), broken[1]]);
  await page.locator('.input-tab, .open-failure').nth(2).waitFor().catch(() => undefined);
  const shown = await page.locator('body').innerText();
  for (const name of ['one.safetensors', 'good.safetensors', 'two.safetensors']) assert.ok(shown.includes(name), `${name} in ${shown}`);
  assertNoComplaints(page);
});

test('an index says what it is: with one shard, and with none', async ({ context, address }) => {
  for (const [text, said] of [['{"weight_map": {"a": "one.safetensors"}}', /An index of 1 shard that is not here/], ['{"weight_map": ', /An index that names no shard/]]) {
    const path = join(scratch(), 'model.safetensors.index.json');
    writeFileSync(path, text);
    const page = await openPage(context, address);
    await drop(page, [path]);
    assert.match(await opened(page), said);
    assertNoComplaints(page);
  }
});

test('a server that does not answer is given up for another address, or cancelled', async ({ context, address }) => {
  const silent = createServer(() => {});
  await new Promise((done) => silent.listen(0, '127.0.0.1', done));
  try {
    const page = await openPage(context, address);
    const field = page.getByRole('textbox', { name: 'or an address' });
    await field.fill(`http://127.0.0.1:${silent.address().port}/model.safetensors`);
    await field.press('Enter');
    await page.locator('.opening-state').waitFor();
    await field.fill(`${address}example/model.safetensors.index.json`);
    await field.press('Enter');
    assert.match(await opened(page), /38 tensors|checkpoint|model/i);
    await drop(page, [plain(scratch(), 'after.safetensors')]);
    await page.locator('.input-tab').nth(1).waitFor();
    assertNoComplaints(page);
  } finally {
    silent.closeAllConnections();
    silent.close();
  }
});

const card = (page, name) => page.getByRole('list', { name: 'Operations' }).getByRole('button', { name });
const save = (page) => page.locator('.plan .button.primary');

test('a second click on Save asks once and writes once', async ({ context, address }) => {
  const page = await openPage(context, address);
  await drop(page, [sample]);
  await opened(page);
  await clearStorage(page);
  await stubPickers(page);
  await page.evaluate(() => {
    window.asked = 0;
    for (const name of ['showSaveFilePicker', 'showDirectoryPicker']) {
      const pick = window[name];
      window[name] = async (options) => {
        window.asked += 1;
        if (window.asked > 1) throw new DOMException('File picker already active.', 'NotAllowedError');
        await new Promise((done) => setTimeout(done, 400));
        return pick(options);
      };
    }
  });
  await tab(page, 'Convert').click();
  await card(page, /Dequantise FP8/).click();
  await save(page).evaluate((button) => {
    button.click();
    button.click();
    setTimeout(() => button.click(), 100);
  });
  await page.getByRole('heading', { name: 'Written', exact: true }).waitFor();
  assert.equal(await page.evaluate(() => window.asked), 1);
  assert.ok(Object.keys(await storedSizes(page)).some((name) => name.endsWith('.safetensors')));
  assertNoComplaints(page);
});

test('a model can be closed while its values are read', async ({ context, address }) => {
  const page = await openPage(context, address);
  await drop(page, [sample]);
  await opened(page);
  for (const name of ['one.safetensors', 'two.safetensors', 'three.safetensors']) {
    await drop(page, [plain(scratch(), name, 48 << 20)]);
    await page.locator('.input-tab').nth(1).waitFor();
    await page.evaluate(() => (location.hash = '#tensors/weight'));
    await page.locator('.tensor-detail').waitFor();
    await page.getByRole('button', { name: `Close ${name}` }).click();
    await page.locator('.input-tabs').waitFor({ state: 'detached' });
  }
  await page.evaluate(() => (location.hash = '#tensors/model.embed_tokens.weight'));
  await page.locator('.tensor-detail').getByText('Maximum').waitFor();
  assertNoComplaints(page);
});

test('a model that is being converted cannot be closed until it is cancelled', async ({ context, address }) => {
  const page = await openPage(context, address);
  await clearStorage(page);
  await stubPickers(page);
  await drop(page, [sample]);
  await opened(page);
  const folder = scratch();
  await drop(page, [plain(folder, 'big.safetensors', 96 << 20)]);
  await page.locator('.input-tab').nth(1).waitFor();
  await tab(page, 'Convert').click();
  await card(page, /^Rename/).click();
  await page.getByRole('textbox').first().waitFor();
  await card(page, /^Reshard/).click();
  await save(page).click();
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('heading', { name: 'Paused' }).waitFor();
  const close = page.getByRole('button', { name: /^Close big\.safetensors/ });
  assert.equal(await close.isDisabled(), true);
  assert.match(await close.getAttribute('aria-label'), /being converted/);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByText('Cancelled. Nothing was left behind.').waitFor();
  await close.click();
  await page.locator('.input-tabs').waitFor({ state: 'detached' });
  assertNoComplaints(page);
});
