// The five places: what they show, keyboard, address, narrow screens.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { at, assertNoComplaints, drop, native, opened, openPage, safetensors, sample, scratch, tab, test, textOf } from './harness.mjs';

async function openSample(context, address) {
  const page = await openPage(context, address);
  await drop(page, [sample]);
  await opened(page);
  return page;
}

test('the overview has facts, treemap and dtypes', async ({ context, address }) => {
  const page = await openSample(context, address);
  assert.match(await textOf(page.locator('.facts').first()), /285,440/);
  const map = page.getByRole('application', { name: /Bytes by module/ });
  await map.focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  assert.match(await textOf(page.locator('#treemap-readout')), /%/);
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash.length > '#overview'.length || location.hash.startsWith('#tensors/'));
  await page.goBack();
  assert.match(await textOf(page.locator('.evidence')), /fp8-block[\s\S]*blocks of 128 x 128/);
  const colours = await page.locator('.treemap canvas').evaluate((canvas) => new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data).size);
  assert.ok(colours > 8);
  assertNoComplaints(page);
});

test('tensors: folding, filter, sorting, keyboard', async ({ context, address }) => {
  const page = await openSample(context, address);
  await tab(page, 'Tensors').click();
  const grid = page.getByRole('grid', { name: 'Tensors' });
  assert.match(await textOf(grid), /model\.layers\.#\.mlp\.up_proj\.weight\s*×2/);
  const filter = page.getByRole('searchbox', { name: 'Filter tensors' });
  await filter.fill('dtype:f8 size:>20kB *mlp*');
  await page.getByText(/6 of 38\stensors/).waitFor();
  await filter.fill('colour:red');
  await page.getByText(/0 of 38\stensors/).waitFor();
  await filter.fill('size:big');
  await page.getByText(/Not understood: size:big/).waitFor();
  await filter.fill('');
  await page.getByRole('columnheader', { name: /Bytes/ }).getByRole('button').click();
  assert.match(await textOf(grid.getByRole('row').nth(1)), /model\.embed_tokens\.weight/);
  await grid.focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.locator('.tensor-detail').waitFor();
  assert.match(page.url(), /#tensors\/model\.layers\.0\./);
  await page.keyboard.press('Escape');
  await page.locator('.tensor-detail').waitFor({ state: 'detached' });
  assertNoComplaints(page);
});

test('a tensor shows its numbers, stored and dequantised', async ({ context, address }) => {
  const folder = scratch();
  const values = new Float32Array([1, -2, 0, 0.5, Infinity, NaN, 3, -0.25]);
  writeFileSync(join(folder, 'x.safetensors'), safetensors([['w', 'F32', [2, 4], Buffer.from(values.buffer)]]));
  const page = await openPage(context, address, '#tensors/w');
  await drop(page, [join(folder, 'x.safetensors')]);
  await opened(page);
  const detail = page.locator('.tensor-detail');
  await detail.getByText('Minimum').waitFor();
  const text = await textOf(detail);
  assert.match(text, /Minimum −2 Maximum 3/);
  assert.match(text, /Zeros 1 .* NaN 1 .* Infinite 1/);
  assert.match(text, /00 00 80 3f 00 00 00 c0/);
  await page.getByText('+∞').waitFor();

  const quantised = await openPage(context, address, '#tensors/model.layers.0.mlp.up_proj.weight');
  await drop(quantised, [sample]);
  await opened(quantised);
  const panel = quantised.locator('.tensor-detail');
  await panel.getByText('Maximum').waitFor();
  const stored = await textOf(panel.locator('.pairs'));
  assert.match(stored, /Minimum\s*−448/);
  await panel.getByRole('button', { name: 'Dequantised' }).click();
  await quantised.waitForFunction(() => /Maximum\s*0\.\d+/.test(document.querySelector('.pairs')?.innerText ?? ''));
  assert.match(await textOf(panel), /Companions[\s\S]*weight_scale_inv/);
  assertNoComplaints(quantised);
});

test('the report is the native one', async ({ context, address }) => {
  const file = at('tests/golden/safetensors/cases/multi-b/model.safetensors');
  const page = await openPage(context, address, '#check');
  await drop(page, [file]);
  await opened(page);
  assert.match(await textOf(page.locator('.check-place')), /6 problems found/);
  assert.match(await textOf(page.locator('.counts')), /4 errors\s*2 warnings/);
  for (const [title, format] of [['JSON', 'json'], ['SARIF', 'sarif'], ['Text', 'text']]) {
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('group', { name: 'Save the report' }).getByRole('button', { name: title }).click()]);
    const saved = readFileSync(await download.path());
    const expected = native('tftf-lint', ['--format', format, 'model.safetensors'], { cwd: dirname(file) }).stdout;
    assert.equal(saved.toString(), expected.toString());
  }
  await page.getByRole('button', { name: 'Show the tensor' }).first().click();
  await page.locator('.tensor-detail').waitFor();
});

test('severities can be hidden, and none found says how much was checked', async ({ context, address }) => {
  const page = await openSample(context, address);
  await tab(page, 'Check').click();
  assert.match(await textOf(page.locator('.check-place')), /No problems found[\s\S]*\d+ of \d+ rules checked/);
  assert.ok((await page.locator('.rule').count()) > 0);
  await page.getByRole('button', { name: /infos/ }).click();
  assert.equal(await page.locator('.rule').count(), 0);
  await page.getByRole('button', { name: /Check the values too/ }).click();
  await page.getByText(/rules checked/).waitFor();
  assertNoComplaints(page);
});

test('metadata unfolds, is searched and is kept in the address', async ({ context, address }) => {
  const page = await openSample(context, address);
  await tab(page, 'Metadata').click();
  await page.getByRole('button', { name: /config\.json/ }).click();
  assert.match(page.url(), /#metadata\/config\.json$/);
  await page.getByRole('searchbox', { name: 'Search in the document' }).fill('block');
  assert.match(await textOf(page.locator('.json').first()), /weight_block_size/);
  assert.doesNotMatch(await textOf(page.locator('.json').first()), /hidden_act/);
  await page.goBack();
  await page.goBack();
  assert.equal(await tab(page, 'Overview').getAttribute('aria-selected'), 'true');
});

test('two models are compared, with their values', async ({ context, address }) => {
  const folder = scratch();
  const floats = (...values) => Buffer.from(new Float32Array(values).buffer);
  writeFileSync(join(folder, 'a.safetensors'), safetensors([['v', 'F32', [2], floats(1, 2)], ['w', 'F32', [2], floats(0, 0)], ['x', 'F32', [1], floats(3)]]));
  writeFileSync(join(folder, 'b.safetensors'), safetensors([['v', 'F32', [2], floats(1, 2.5)], ['w', 'F16', [2], Buffer.alloc(4)], ['y', 'F32', [1], floats(3)]]));
  const page = await openPage(context, address);
  await drop(page, [join(folder, 'a.safetensors'), join(folder, 'b.safetensors')]);
  await page.getByRole('navigation', { name: 'Open models' }).waitFor();
  await page.getByLabel('Compare with').selectOption({ label: 'a.safetensors' });
  const summary = page.locator('.comparison-summary');
  assert.match(await textOf(summary), /^4 tensors: 1 the same, 1 of another dtype, 1 gone, 1 new\.$/);
  await page.getByRole('button', { name: 'Compare the values' }).click();
  await summary.filter({ hasText: '1 different' }).waitFor();
  await page.locator('.comparison summary').filter({ hasText: 'different' }).click();
  assert.match(await textOf(page.locator('.comparison')), /v F32 2, 1 value differs, by at most 0\.5/);
  assertNoComplaints(page);
});

test('320 pixels are enough', async ({ context, address }) => {
  const page = await openPage(context, address);
  await page.setViewportSize({ width: 320, height: 640 });
  const fits = async () => assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 320);
  await fits();
  await drop(page, [sample]);
  await opened(page);
  for (const name of ['Overview', 'Tensors', 'Check', 'Convert', 'Metadata']) {
    await tab(page, name).click();
    await page.waitForTimeout(50);
    await fits();
  }
  await page.goto(`${address}#tensors/model.norm.weight`);
  await fits();
});

test('roles, names and headings are there', async ({ context, address }) => {
  const page = await openPage(context, address);
  await page.getByRole('region', { name: 'Drop a checkpoint here' }).waitFor();
  await drop(page, [sample]);
  await opened(page);
  for (const name of ['Overview', 'Tensors', 'Check', 'Convert', 'Metadata']) {
    await tab(page, name).click();
    assert.equal(await tab(page, name).getAttribute('aria-selected'), 'true');
    const nameless = await page.evaluate(() =>
      [...document.querySelectorAll('button, a[href], input, select')]
        .filter((element) => element.checkVisibility())
        .filter((element) => !(element.getAttribute('aria-label') || element.textContent.trim() || element.labels?.length || element.getAttribute('aria-labelledby')))
        .map((element) => element.outerHTML.slice(0, 120)),
    );
    assert.deepEqual(nameless, []);
    assert.equal(await page.locator('h1').count(), 1);
  }
  await tab(page, 'Metadata').focus();
  await page.keyboard.press('ArrowRight');
  assert.equal(await tab(page, 'Overview').getAttribute('aria-selected'), 'true');
});
