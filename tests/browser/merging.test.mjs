// A base and an adapter: dropped together, opened one after the other, merged to the native bytes.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { at, assertNoComplaints, clearStorage, drop, native, openPage, reads, scratch, selected, sentence, storedFile, stubPickers, tab, test } from './harness.mjs';

const inputs = at('tests/golden/tftf/inputs');
const base = join(inputs, 'base_f32');
const adapter = join(inputs, 'ad_basic');
const save = (page) => page.locator('.plan .button.primary');

async function emptyPage(context, address) {
  const page = await openPage(context, address);
  await clearStorage(page);
  await stubPickers(page);
  return page;
}

// What the native program writes into one file.
function expected(args) {
  const out = join(scratch(), 'out.safetensors');
  assert.equal(native('tftf', ['merge-lora', '-b', join(base, 'model.safetensors'), ...args, '-o', out]).status, 0);
  return readFileSync(out);
}

async function saveOneFile(page) {
  await page.getByLabel('one file').check();
  await save(page).click();
  await page.getByRole('heading', { name: 'Written', exact: true }).waitFor();
}

test('a base and an adapter dropped together are merged to the native bytes', async ({ context, address }) => {
  const page = await emptyPage(context, address);
  await drop(page, [base, adapter]);
  await save(page).waitFor();
  await selected(page, 'Convert');
  assert.equal(await page.getByLabel('Adapter needed').locator('option:checked').innerText(), 'ad_basic');
  await reads(page.locator('.plan'), /Merged \d+ of \d+ adapted modules? .*from ad_basic/);
  await saveOneFile(page);
  assert.ok((await storedFile(page, 'base_f32-merge-lora.safetensors')).equals(expected(['-a', adapter])));
  assertNoComplaints(page);
});

test('loose files of a base and an adapter are told apart', async ({ context, address }) => {
  const page = await emptyPage(context, address);
  await drop(page, [join(base, 'model.safetensors'), join(adapter, 'adapter_config.json'), join(adapter, 'adapter_model.safetensors')]);
  await page.getByLabel('Scale').fill('0.5');
  await page.locator('.plan').filter({ hasText: 'Merged' }).waitFor();
  await saveOneFile(page);
  assert.ok((await storedFile(page, 'model-merge-lora.safetensors')).equals(expected(['-a', adapter, '--scale', '0.5'])));
  assertNoComplaints(page);
});

test('an adapter opened after its base offers the merge; one of another model is refused', async ({ context, address }) => {
  const page = await emptyPage(context, address);
  await drop(page, [base]);
  await sentence(page).waitFor();
  await tab(page, 'Convert').click();
  await page.getByRole('list', { name: 'Operations' }).getByRole('button', { name: /^Merge an adapter/ }).click();
  await reads(page.locator('.plan'), /Give adapter to see the plan/);
  assert.equal(await page.getByLabel('Adapter needed').isDisabled(), true);
  await drop(page, [join(inputs, 'ad_wrongmodel')]);
  await page.getByRole('button', { name: 'Merge ad_wrongmodel into base_f32' }).click();
  await reads(page.locator('.plan'), /cannot be done as it stands/);
  await drop(page, [adapter]);
  await page.getByRole('button', { name: 'Merge ad_basic into base_f32' }).click();
  await page.locator('.plan').filter({ hasText: 'from ad_basic' }).waitFor();
  assertNoComplaints(page);
});

test('an FP8 base is dequantised and merged in one pass', async ({ context, address }) => {
  const page = await emptyPage(context, address);
  const quantised = join(inputs, 'fp8_lora');
  const lora = join(inputs, 'ad_fp8');
  await drop(page, [lora, quantised]);
  await page.getByLabel('Block size').fill('4');
  await page.locator('.plan').filter({ hasText: 'from ad_fp8' }).waitFor();
  await saveOneFile(page);
  const out = join(scratch(), 'out.safetensors');
  assert.equal(native('tftf', ['dequant-fp8', '-i', join(quantised, 'model.safetensors'), '--block-size', '4', '--merge-lora', lora, '-o', out]).status, 0);
  assert.ok((await storedFile(page, 'fp8_lora-dequant-fp8-merge-lora.safetensors')).equals(readFileSync(out)));
  assertNoComplaints(page);
});

test('training folders, distributed checkpoints and ranks are opened as adapters and merged to the native bytes', async ({ context, address }) => {
  const dcp = join(inputs, 'dcp/single');
  const inner = join(dcp, 'pytorch_model_fsdp_0');
  const training = join(inputs, 'train_lora');
  const ranks = join(inputs, 'fsdp2');
  const rankFiles = ['rank_01.safetensors', 'rank_00.safetensors', 'adapter_config.json'].map((name) => join(ranks, name));
  const command = { dcp: ['merge-dcp-lora', '-c', inner], training: ['merge-lora', '-a', training], ranks: ['merge-fsdp-lora', '--shard-dir', ranks] };
  for (const [kind, dropped] of [['dcp', [base, dcp]], ['training', [training, base]], ['ranks', [base, ranks]], ['ranks', [rankFiles, base]]]) {
    const page = await emptyPage(context, address);
    if (Array.isArray(dropped[0])) {
      for (const one of dropped) await drop(page, [one].flat());
      await page.getByRole('button', { name: /^Merge .* into base_f32/ }).click();
    } else {
      await drop(page, dropped);
    }
    await page.locator('.plan').filter({ hasText: /Merged\s*\d+ of/ }).waitFor();
    await saveOneFile(page);
    const out = join(scratch(), 'out.safetensors');
    const run = native('tftf', [...command[kind], '-b', join(base, 'model.safetensors'), '-o', out]);
    assert.equal(run.status, 0, run.stderr);
    assert.ok((await storedFile(page, 'base_f32-merge-lora.safetensors')).equals(readFileSync(out)), kind);
    assertNoComplaints(page);
  }
});

test('an adapter made of parts shows its tensors and how it was found; a broken one says what is wrong', async ({ context, address }) => {
  const page = await emptyPage(context, address);
  await drop(page, [join(inputs, 'train_lora')]);
  await reads(sentence(page), /LoRA/);
  await tab(page, 'Tensors').click();
  await reads(page.getByRole('grid', { name: 'Tensors' }), /lora_A/);
  await drop(page, [join(inputs, 'dcp/shortfile')]);
  await reads(page.locator('.open-failure'), /distcp/);
});

async function refuseAdapter(page, given) {
  await page.evaluate(() => {
    const take = DataTransferItem.prototype.getAsFileSystemHandle;
    window.taken = [];
    DataTransferItem.prototype.getAsFileSystemHandle = function () {
      const handle = take.call(this);
      window.taken.push(handle);
      return handle;
    };
    window.showSaveFilePicker = async () => {
      const handle = await window.taken[1];
      return handle.kind === 'file' ? handle : handle.getFileHandle('adapter_model.safetensors');
    };
  });
  await drop(page, [base, given]);
  await page.locator('.plan').filter({ hasText: 'Merged' }).waitFor();
  await page.getByLabel('one file').check();
  await save(page).click();
  await reads(page.getByRole('alert'), /That is the adapter that is being merged\./);
  assertNoComplaints(page);
}

test('the adapter itself is never replaced', async ({ context, address }) => {
  for (const given of [adapter, join(adapter, 'adapter_model.safetensors')]) await refuseAdapter(await emptyPage(context, address), given);
});
