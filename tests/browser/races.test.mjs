// What happens at once: drops while something opens, second clicks, models that are closed while they are read.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { assertNoComplaints, clearStorage, clickInTurn, counts, drop, opened, openPage, reads, safetensors, sample, scratch, storedSizes, stubPickers, tab, test, until } from './harness.mjs';

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
  await drop(page, later);
  await counts(page.locator('.input-tab'), 6);
  assert.deepEqual((await tabs(page)).sort(), [...'abcdef'].map((name) => `${name}.safetensors`));
  assertNoComplaints(page);
});

test('a drop arrives though what lies under it is replaced at every move', async ({ context, address }) => {
  const folder = scratch();
  const page = await openPage(context, address);
  await page.evaluate(() => {
    let part = null;
    const replace = () => {
      part?.remove();
      part = document.createElement('div');
      part.style.cssText = 'position: fixed; inset: 0; z-index: 9';
      document.body.append(part);
    };
    replace();
    for (const name of ['dragenter', 'dragover']) addEventListener(name, () => queueMicrotask(replace));
    window.letGo = () => part.remove();
  });
  await drop(page, [plain(folder, 'a.safetensors')]);
  assert.match(await opened(page), /64 (values|parameters)/);
  await drop(page, [plain(folder, 'b.safetensors')]);
  await counts(page.locator('.input-tab'), 2);
  await counts(page.locator('.drop-veil'), 0);
  await page.evaluate(() => window.letGo());
  await tab(page, 'Check').click();
  assertNoComplaints(page);
});

test('the veil is there while files are held over the page, and only then', async ({ context, address }) => {
  const page = await openPage(context, address);
  const data = { items: [], files: [plain(scratch(), 'a.safetensors')], dragOperationsMask: 1 };
  const session = await context.newCDPSession(page);
  const drag = (type) => session.send('Input.dispatchDragEvent', { type, x: 150, y: 200, data });
  const veil = page.locator('.drop-veil');
  for (const moves of [['dragEnter'], ['dragEnter', 'dragOver'], ['dragEnter', 'dragOver', 'dragOver']]) {
    for (const move of moves) await drag(move);
    await counts(veil, 1);
    // No message of the protocol makes the files leave the window, so the event is made; where it is lost the pointer tells.
    if (moves.length > 1) await veil.dispatchEvent('dragleave');
    else await page.mouse.move(20, 30);
    await counts(veil, 0);
    await drag('dragCancel');
  }
  await page.getByRole('button', { name: 'Try the example' }).click();
  await opened(page);
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
  for (const name of ['one.safetensors', 'good.safetensors', 'two.safetensors']) await page.locator('.input-tab, .open-failure').filter({ hasText: name }).first().waitFor();
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
    window.allClicked = new Promise((done) => (window.clicked = done));
    for (const name of ['showSaveFilePicker', 'showDirectoryPicker']) {
      const pick = window[name];
      window[name] = async (options) => {
        window.asked += 1;
        if (window.asked > 1) throw new DOMException('File picker already active.', 'NotAllowedError');
        await window.allClicked;
        return pick(options);
      };
    }
  });
  await tab(page, 'Convert').click();
  await card(page, /Dequantise FP8/).click();
  await save(page).evaluate((button) => {
    button.click();
    button.click();
    setTimeout(() => {
      button.click();
      window.clicked();
    }, 100);
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
  await clickInTurn(page, ['Pause']);
  await save(page).click();
  await page.getByRole('heading', { name: 'Paused' }).waitFor();
  const close = page.getByRole('button', { name: /^Close big\.safetensors/ });
  await until(() => close.isDisabled(), 'the button that cannot be used');
  assert.match(await close.getAttribute('aria-label'), /being converted/);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await reads(page.locator('.cancelled'), /Cancelled\. Nothing was left behind\./);
  await close.click();
  await page.locator('.input-tabs').waitFor({ state: 'detached' });
  assertNoComplaints(page);
});
