// Large models open at once: only headers are read. How long it takes is printed; TFTF_CLOCK=1 makes it count, on a machine
// that does nothing else.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { at, assertNoComplaints, drop, openPage, scratch, sentence, tab, test, textOf } from './harness.mjs';

const clock = process.env.TFTF_CLOCK === '1';
const within = (amount, limit, unit) => {
  console.log(`      ${amount.toFixed(2)} ${unit}`);
  if (clock) assert.ok(amount < limit, `${amount} ${unit}, more than ${limit}`);
};

async function secondsToOpen(page, paths) {
  const began = Date.now();
  await drop(page, paths);
  await sentence(page).waitFor();
  return (Date.now() - began) / 1000;
}

function sparseFile(path, gibibytes) {
  const bytes = gibibytes * 2 ** 30;
  const layers = 256;
  const header = {};
  const size = bytes / layers;
  for (let i = 0; i < layers; i += 1) header[`model.layers.${i}.weight`] = { dtype: 'BF16', shape: [size / 2 / 4096, 4096], data_offsets: [i * size, (i + 1) * size] };
  let text = Buffer.from(JSON.stringify(header));
  text = Buffer.concat([text, Buffer.alloc((8 - (text.length % 8)) % 8, 0x20)]);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const file = openSync(path, 'w');
  writeSync(file, length);
  writeSync(file, text);
  ftruncateSync(file, 8 + text.length + bytes);
  closeSync(file);
}

test('a file of 8 GiB opens', async ({ context, address }) => {
  const file = join(scratch(), 'eight.safetensors');
  sparseFile(file, 8);
  const page = await openPage(context, address);
  const seconds = await secondsToOpen(page, [file]);
  within(seconds, 3, 's');
  // A tensor in the middle of it can be looked at.
  await page.goto(`${address}#tensors/model.layers.200.weight`);
  await page.locator('.tensor-detail').getByText('Maximum').waitFor();
  assertNoComplaints(page);
});

test('163 shards with 92,000 tensors open, and the table answers', async ({ context, address }) => {
  const folder = join(scratch(), 'deepseek');
  execFileSync('python3', [at('tests/tools/make_sparse_checkpoint.py'), folder]);
  const page = await openPage(context, address);
  const seconds = await secondsToOpen(page, [folder]);
  within(seconds, 3, 's');
  assert.match(await textOf(sentence(page)), /DeepSeek-V3 checkpoint: \d+ B parameters in FP8 \(128 × 128 blocks\), 163 shards, 6\d\d GB/);
  await tab(page, 'Tensors').click();
  await page.getByRole('checkbox', { name: 'Fold layers' }).uncheck();
  const filter = page.getByRole('searchbox', { name: 'Filter tensors' });
  await filter.fill('experts.255.up');
  await page.getByText(/\d+ of 9\d,\d+\stensors/).waitFor();
  const milliseconds = await page.evaluate(() => {
    const box = document.querySelector('input.filter');
    const times = [];
    for (const text of ['e', 'ex', 'exp', 'expe', 'exper']) {
      box.value = text;
      const began = performance.now();
      box.dispatchEvent(new InputEvent('input', { bubbles: true }));
      times.push(performance.now() - began);
    }
    return times.sort((a, b) => a - b)[2];
  });
  within(milliseconds, 34, 'ms for a letter in the filter');
  await filter.fill('');
  await page.getByRole('grid').focus();
  await page.keyboard.press('End');
  await page.getByRole('row').nth(5).waitFor();
  assert.ok((await page.getByRole('row').count()) < 120);
  assertNoComplaints(page);
});
