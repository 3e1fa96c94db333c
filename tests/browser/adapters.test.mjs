// An adapter brought into another family, with and without the model that it is fitted to, to the native bytes.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { at, assertNoComplaints, clearStorage, counts, drop, native, opened, openPage, reads, scratch, storedFile, stubPickers, tab, test } from './harness.mjs';

async function openAdapter(context, address, path) {
  const page = await openPage(context, address);
  await clearStorage(page);
  await stubPickers(page);
  await drop(page, [path]);
  await opened(page);
  await tab(page, 'Convert').click();
  await page.getByRole('button', { name: /^Convert to another family/ }).click();
  return page;
}
const save = (page) => page.locator('.plan .button.primary');

test('an adapter becomes one of another family, with the native bytes', async ({ context, address }) => {
  const file = at('tests/golden/adapters/inputs/kohya_sd_unet.safetensors');
  const page = await openAdapter(context, address, file);
  await reads(page.locator('.plan'), /Give to to see the plan/);
  await counts(page.getByText('In the same pass:'), 0);
  await page.getByRole('combobox', { name: /^To/ }).selectOption('peft');
  await page.getByLabel('a folder of shards').check();
  await save(page).click();
  await page.getByRole('heading', { name: 'Written', exact: true }).waitFor();
  const out = join(scratch(), 'out');
  assert.equal(native('tftf', ['adapter', 'convert', '-i', file, '--to', 'peft', '-o', out]).status, 0);
  for (const name of ['adapter_model.safetensors', 'adapter_config.json']) {
    assert.ok((await storedFile(page, `picked/${name}`)).equals(readFileSync(join(out, name))), name);
  }
  assertNoComplaints(page);
});

test('an adapter is fitted to an open model', async ({ context, address }) => {
  const adapter = at('tests/golden/experts/models/ad-mixtral-split');
  const base = at('tests/golden/experts/models/mixtral-v5');
  const page = await openAdapter(context, address, adapter);
  await drop(page, [base]);
  await page.locator('.input-name').filter({ hasText: 'mixtral-v5' }).waitFor();
  await page.getByRole('navigation', { name: 'Open models' }).getByRole('button', { name: 'ad-mixtral-split', exact: true }).click();
  await tab(page, 'Convert').click();
  await page.getByRole('combobox', { name: /^To/ }).selectOption('peft');
  await page.getByRole('combobox', { name: /^Base$/ }).selectOption({ label: 'mixtral-v5' });
  await page.getByLabel('a folder of shards').check();
  await save(page).click();
  await page.getByRole('heading', { name: 'Written', exact: true }).waitFor();
  const out = join(scratch(), 'out');
  assert.equal(native('tftf', ['adapter', 'convert', '-i', adapter, '--to', 'peft', '--base', base, '-o', out]).status, 0);
  for (const name of ['adapter_model.safetensors', 'adapter_config.json']) {
    assert.ok((await storedFile(page, `picked/${name}`)).equals(readFileSync(join(out, name))), name);
  }
  assertNoComplaints(page);
});
