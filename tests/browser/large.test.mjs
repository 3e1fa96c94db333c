// Large models: only headers are read to open them, and of the table only what is in view is made. How long it takes is
// measured by tests/bench/page_speed.mjs.
import assert from 'node:assert/strict';
import { assertNoComplaints, drop, opened, openPage, reads, tab, test, until } from './harness.mjs';
import { sparseFile, sparseShards } from './large_models.mjs';

test('a file of 8 GiB opens', async ({ context, address }) => {
  const page = await openPage(context, address);
  await drop(page, [sparseFile(8)]);
  assert.match(await opened(page), /256 tensors|4\.29 B/);
  // A tensor in the middle of it can be looked at.
  await page.goto(`${address}#tensors/model.layers.200.weight`);
  await page.locator('.tensor-detail').getByText('Maximum').waitFor();
  assertNoComplaints(page);
});

test('163 shards with 92,000 tensors open, and the table answers', async ({ context, address }) => {
  const page = await openPage(context, address);
  await drop(page, [sparseShards()]);
  assert.match(await opened(page), /DeepSeek-V3 checkpoint: \d+ B parameters in FP8 \(128 × 128 blocks\), 163 shards, 6\d\d GB/);
  await tab(page, 'Tensors').click();
  await page.getByRole('checkbox', { name: 'Fold layers' }).uncheck();
  const filter = page.getByRole('searchbox', { name: 'Filter tensors' });
  await filter.fill('experts.255.up');
  await reads(page.locator('.table-note'), /\d+ of 9\d,\d+ tensors/);
  await filter.fill('');
  await reads(page.locator('.table-note'), /^9\d,\d+ tensors/);
  const grid = page.getByRole('grid', { name: 'Tensors' });
  await grid.focus();
  await page.keyboard.press('End');
  const last = await grid.getAttribute('aria-rowcount');
  await until(async () => (await grid.locator(`[aria-rowindex="${last}"]`).count()) === 1, 'the last row');
  assert.ok((await page.getByRole('row').count()) < 120);
  assertNoComplaints(page);
});
