// Converting: plans, real writing into the page's storage, and every way in which it can end.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { appendFileSync, copyFileSync, readFileSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { assertNoComplaints, clearStorage, clickInTurn, drawn, drop, native, opened, openPage, reads, safetensors, sample, scratch, selected, storedFile, storedSizes, stubPickers, tab, test } from './harness.mjs';

async function openConvert(context, address, paths) {
  const page = await openPage(context, address);
  await clearStorage(page);
  await stubPickers(page);
  await drop(page, paths);
  await opened(page);
  await tab(page, 'Convert').click();
  return page;
}
const card = (page, name) => page.getByRole('list', { name: 'Operations' }).getByRole('button', { name });
const save = (page) => page.locator('.plan .button.primary');
const someWritten = '[role=progressbar][aria-valuenow]:not([aria-valuenow="0"])';

// A checkpoint whose conversion takes a while.
function bigFile(megabytes) {
  const path = join(scratch(), 'big.safetensors');
  const bytes = Buffer.alloc(megabytes << 20, 0x3c);
  writeFileSync(path, safetensors([['w', 'BF16', [megabytes, 1 << 19], bytes]]));
  return path;
}

test('dequantising a folder gives the native bytes', async ({ context, address }) => {
  const page = await openConvert(context, address, [sample]);
  await card(page, /Dequantise FP8/).click();
  await page.locator('.plan').getByText('model-00001-of-00001.safetensors').waitFor();
  await reads(page.locator('.plan'), /Changed\s*14[\s\S]*Copied\s*10[\s\S]*Dropped\s*14 companion/);
  await save(page).click();
  await page.getByRole('heading', { name: 'Written', exact: true }).waitFor();
  const expected = join(scratch(), 'out');
  assert.equal(native('tftf', ['dequant-fp8', '-i', sample, '-o', expected]).status, 0);
  for (const name of ['model-00001-of-00001.safetensors', 'config.json', 'model.safetensors.index.json']) {
    assert.ok((await storedFile(page, `picked/${name}`)).equals(readFileSync(join(expected, name))), name);
  }
  await reads(page.locator('.result .sentence'), /Qwen3 checkpoint: 285 k parameters in BF16, 571 kB/);
  await page.getByRole('button', { name: 'Compare the values' }).click();
  await page.locator('.comparison-summary').filter({ hasText: /10\s+the same, 14\s+equal in value/ }).waitFor();
  await page.getByRole('button', { name: 'Look at the result' }).click();
  await selected(page, 'Overview');
  assertNoComplaints(page);
});

test('filter and cast chained into one file give the native bytes', async ({ context, address }) => {
  const file = join(scratch(), 'model.safetensors');
  copyFileSync(join(sample, 'model-00001-of-00002.safetensors'), file);
  const page = await openConvert(context, address, [file]);
  await card(page, /^Filter/).click();
  await page.getByLabel('Include', { exact: false }).first().fill('*norm*');
  await page.getByRole('button', { name: 'Cast' }).last().click();
  await reads(page.locator('.plan'), /Give dtype to see the plan/);
  await page.getByLabel('Dtype').selectOption('float32');
  await page.locator('.plan').getByText('model-filter-cast.safetensors').waitFor();
  await save(page).click();
  await page.getByRole('heading', { name: 'Written', exact: true }).waitFor();
  const expected = join(scratch(), 'out.safetensors');
  assert.equal(native('tftf', ['run', '-i', file, '-o', expected, '--key-filter', '*norm*', '--dtype-cast', 'float32']).status, 0);
  assert.ok((await storedFile(page, 'model-filter-cast.safetensors')).equals(readFileSync(expected)));
});

test('resharding gives the native shards, or one file', async ({ context, address }) => {
  const page = await openConvert(context, address, [sample]);
  await card(page, /^Reshard/).click();
  await page.getByLabel('Max shard size').fill('100KB');
  await page.locator('.plan').getByText('model-00004-of-00004.safetensors').waitFor();
  await save(page).click();
  await page.getByRole('heading', { name: 'Written', exact: true }).waitFor();
  const expected = join(scratch(), 'out');
  assert.equal(native('tftf', ['passthrough', '-i', sample, '-o', expected, '--max-shard-size', '100KB']).status, 0);
  const stored = Object.keys(await storedSizes(page)).map((name) => name.replace('picked/', ''));
  assert.deepEqual(stored.sort(), readdirSync(expected).sort());
  for (const name of stored) assert.ok((await storedFile(page, `picked/${name}`)).equals(readFileSync(join(expected, name))), name);
  await page.getByRole('button', { name: 'Convert something else' }).click();
  await page.getByLabel('Max shard size').fill('');
  await page.getByRole('checkbox', { name: 'Single' }).check();
  await page.getByRole('button', { name: 'Save as…' }).waitFor();
  assertNoComplaints(page);
});

test('forms come from the table: what does not apply says why, what is wrong is refused', async ({ context, address }) => {
  const file = join(scratch(), 'plain.safetensors');
  writeFileSync(file, safetensors([['w', 'F32', [2], Buffer.alloc(8)]]));
  const page = await openConvert(context, address, [file]);
  assert.equal(await card(page, /Dequantise FP8/).isDisabled(), true);
  await card(page, /^Rename/).click();
  await page.getByLabel('Rule, pattern').fill('(');
  await page.getByLabel('Rule, replacement').fill('x');
  await reads(page.locator('.plan'), /cannot be done as it stands/);
  await page.getByLabel('Rule, pattern').fill('w');
  await save(page).waitFor();
  assertNoComplaints(page);
});

test('a rule with an empty replacement takes the pattern away', async ({ context, address }) => {
  const file = join(scratch(), 'named.safetensors');
  writeFileSync(file, safetensors([['model.w', 'F32', [2], Buffer.alloc(8)]]));
  const page = await openConvert(context, address, [file]);
  await card(page, /^Rename/).click();
  await page.getByLabel('Rule, pattern').fill('^model\\.');
  await page.locator('.plan').getByText('named-rename.safetensors').waitFor();
  await save(page).click();
  await page.getByRole('heading', { name: 'Written', exact: true }).waitFor();
  const expected = join(scratch(), 'expected.safetensors');
  assert.equal(native('tftf', ['run', '--key-rename', '^model\\.', '', '-i', file, '-o', expected, '--single']).status, 0);
  assert.ok((await storedFile(page, 'named-rename.safetensors')).equals(readFileSync(expected)));
  assertNoComplaints(page);
});

test('closing the dialog changes nothing', async ({ context, address }) => {
  const page = await openPage(context, address);
  await drop(page, [sample]);
  await opened(page);
  // As a dialog that is closed answers.
  await page.evaluate(() => {
    window.dismissed = 0;
    window.showDirectoryPicker = async () => {
      window.dismissed += 1;
      throw new DOMException('The user aborted a request.', 'AbortError');
    };
  });
  await tab(page, 'Convert').click();
  await card(page, /Dequantise FP8/).click();
  for (const times of [1, 2]) {
    await save(page).click();
    await page.waitForFunction((wanted) => window.dismissed === wanted, times);
    await drawn(page);
    assert.equal(await save(page).isVisible(), true);
    assert.equal(await page.getByRole('alert').count(), 0);
  }
  assertNoComplaints(page);
});

test('refused permission is said, nothing is written', async ({ context, address }) => {
  const page = await openConvert(context, address, [sample]);
  await page.evaluate(() => {
    window.showDirectoryPicker = async () => {
      const handle = await (await navigator.storage.getDirectory()).getDirectoryHandle('refused', { create: true });
      handle.queryPermission = async () => 'prompt';
      handle.requestPermission = async () => 'denied';
      return handle;
    };
  });
  await card(page, /Dequantise FP8/).click();
  await save(page).click();
  await reads(page.getByRole('alert'), /not allowed to write/);
  assert.deepEqual(await storedSizes(page), {});
});

test('cancelling leaves nothing', async ({ context, address }) => {
  const page = await openConvert(context, address, [bigFile(192)]);
  await card(page, /^Cast/).click();
  await page.getByLabel('Dtype').selectOption('float32');
  await clickInTurn(page, ['Pause']);
  await save(page).click();
  await page.getByRole('heading', { name: 'Paused' }).waitFor();
  await page.getByRole('progressbar', { name: 'Converting' }).waitFor();
  await clickInTurn(page, ['Go on', 'Cancel']);
  await reads(page.locator('.cancelled'), /Cancelled\. Nothing was left behind\./);
  const left = await storedSizes(page);
  assert.deepEqual(Object.entries(left).filter(([, size]) => size > 0), []);
  assertNoComplaints(page);
});

test('looking at tensors while a conversion is paused and goes on does it no harm', async ({ context, address }) => {
  const file = join(scratch(), 'varied.safetensors');
  const words = new Uint16Array(34 << 20);
  for (let i = 0; i < words.length; i += 1) words[i] = 0x3c00 + ((i * 2654435761) >>> 23);
  writeFileSync(file, safetensors([['v', 'BF16', [34, 1 << 20], Buffer.from(words.buffer)]]));
  const page = await openConvert(context, address, [file]);
  await card(page, /^Cast/).click();
  await page.getByLabel('Dtype').selectOption('float32');
  await clickInTurn(page, ['Pause'], someWritten);
  await save(page).click();
  await page.getByRole('heading', { name: 'Paused' }).waitFor();
  // Reading it whole makes the module's memory grow under the conversion.
  await page.evaluate(() => (location.hash = '#tensors/v'));
  await page.getByRole('button', { name: /Compute them/ }).click();
  await page.locator('.tensor-detail').getByText('Maximum').waitFor();
  await tab(page, 'Convert').click();
  await page.getByRole('button', { name: 'Go on' }).click();
  await page.getByRole('heading', { name: 'Written', exact: true }).waitFor();
  const expected = join(scratch(), 'out.safetensors');
  assert.equal(native('tftf', ['passthrough', '-i', file, '-o', expected, '--dtype', 'float32']).status, 0);
  const hash = await page.evaluate(async () => {
    const handle = await (await navigator.storage.getDirectory()).getFileHandle('varied-cast.safetensors');
    const digest = await crypto.subtle.digest('SHA-256', await (await handle.getFile()).arrayBuffer());
    return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  });
  assert.equal(hash, createHash('sha256').update(readFileSync(expected)).digest('hex'));
  assertNoComplaints(page);
});

test('closing the tab leaves no half file', async ({ context, address }) => {
  const page = await openConvert(context, address, [bigFile(192)]);
  await card(page, /^Cast/).click();
  await page.getByLabel('Dtype').selectOption('float32');
  await clickInTurn(page, ['Pause'], someWritten);
  await save(page).click();
  await page.getByRole('heading', { name: 'Paused' }).waitFor();
  await page.close({ runBeforeUnload: false });
  const other = await openPage(context, address);
  const left = await storedSizes(other);
  assert.deepEqual(Object.entries(left).filter(([name, size]) => size > 0 && !name.endsWith('.crswap')), []);
});

test('a full storage is said, nothing is left', async ({ context, address }) => {
  const page = await openConvert(context, address, [bigFile(64)]);
  const session = await context.newCDPSession(page);
  const { origin } = new URL(address);
  await session.send('Storage.overrideQuotaForOrigin', { origin, quotaSize: 20e6 });
  try {
    await card(page, /^Cast/).click();
    await page.getByLabel('Dtype').selectOption('float32');
    await save(page).click();
    await reads(page.getByRole('alert'), /Free some space/);
    const left = await storedSizes(page);
    assert.deepEqual(Object.entries(left).filter(([, size]) => size > 0), []);
  } finally {
    await session.send('Storage.overrideQuotaForOrigin', { origin });
  }
});

test('a file that changed on disk is not converted', async ({ context, address }) => {
  const file = join(scratch(), 'changing.safetensors');
  writeFileSync(file, safetensors([['w', 'F32', [2], Buffer.alloc(8)]]));
  const page = await openConvert(context, address, [file]);
  await card(page, /^Cast/).click();
  await page.getByLabel('Dtype').selectOption('float16');
  await save(page).waitFor();
  appendFileSync(file, 'more');
  // Not in the same second: that is how finely some systems tell when a file was changed.
  const later = Math.floor(Date.now() / 1000) + 10;
  utimesSync(file, later, later);
  await save(page).click();
  await reads(page.getByRole('alert').first(), /changed/);
  assert.deepEqual(Object.entries(await storedSizes(page)).filter(([, size]) => size > 0), []);
});
