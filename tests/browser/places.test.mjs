// The five places: what they show, keyboard, address, narrow screens.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { at, assertNoComplaints, counts, drawn, drop, native, opened, openPage, reads, safetensors, sample, scratch, selected, tab, test, textOf, until } from './harness.mjs';

async function openSample(context, address) {
  const page = await openPage(context, address);
  await drop(page, [sample]);
  await opened(page);
  return page;
}

const painted = (page) =>
  until(() => page.locator('.treemap canvas').evaluate((canvas) => new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data).size > 8), 'the tiles of the map');

test('the overview has facts, treemap and dtypes', async ({ context, address }) => {
  const page = await openSample(context, address);
  await reads(page.locator('.facts').first(), /285,440/);
  const map = page.getByRole('application', { name: /Bytes by module/ });
  await painted(page);
  await map.focus();
  // Nothing is marked any more when the map gets another size, as it does when the page gets a scroll bar.
  await until(async () => {
    await page.keyboard.press('ArrowRight');
    return /%/.test(await textOf(page.locator('#treemap-readout')));
  }, 'a share of the bytes');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash.length > '#overview'.length || location.hash.startsWith('#tensors/'));
  await page.goBack();
  await reads(page.locator('.evidence'), /fp8-block[\s\S]*blocks of 128 x 128/);
  await painted(page);
  assertNoComplaints(page);
});

test('tensors: folding, filter, sorting, keyboard', async ({ context, address }) => {
  const page = await openSample(context, address);
  await tab(page, 'Tensors').click();
  const grid = page.getByRole('grid', { name: 'Tensors' });
  await reads(grid, /model\.layers\.#\.mlp\.up_proj\.weight\s*×2/);
  const filter = page.getByRole('searchbox', { name: 'Filter tensors' });
  const note = page.locator('.table-note');
  await filter.fill('dtype:f8 size:>20kB *mlp*');
  await reads(note, /6 of 38\stensors/);
  await filter.fill('colour:red');
  await reads(note, /^0 of 38\stensors/);
  await filter.fill('size:big');
  await reads(note, /Not understood: size:big/);
  await filter.fill('');
  await page.getByRole('columnheader', { name: /Bytes/ }).getByRole('button').click();
  await reads(grid.getByRole('row').nth(1), /model\.embed_tokens\.weight/);
  await grid.focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.locator('.tensor-detail').waitFor();
  await page.waitForURL(/#tensors\/model\.layers\.0\./);
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
  for (const shown of [/Minimum −2 Maximum 3/, /Zeros 1 .* NaN 1 .* Infinite 1/, /00 00 80 3f 00 00 00 c0/]) await reads(detail, shown);
  await reads(detail.locator('.values'), /\+∞/);

  const quantised = await openPage(context, address, '#tensors/model.layers.0.mlp.up_proj.weight');
  await drop(quantised, [sample]);
  await opened(quantised);
  const panel = quantised.locator('.tensor-detail');
  await panel.getByText('Maximum').waitFor();
  await reads(panel.locator('.pairs'), /Minimum\s*−448/);
  await panel.getByRole('button', { name: 'Dequantised' }).click();
  await reads(panel.locator('.pairs'), /Maximum\s*0\.\d+/);
  await reads(panel, /Companions[\s\S]*weight_scale_inv/);
  assertNoComplaints(quantised);
});

test('the report is the native one', async ({ context, address }) => {
  const file = at('tests/golden/safetensors/cases/multi-b/model.safetensors');
  const page = await openPage(context, address, '#check');
  await drop(page, [file]);
  await opened(page);
  await reads(page.locator('.check-place'), /6 problems found/);
  await reads(page.locator('.counts'), /4 errors\s*2 warnings/);
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
  const place = page.locator('.check-place');
  await reads(place, /No problems found[\s\S]*\d+ of \d+ rules checked; \d+ more look at the values/);
  await place.locator('.rule').first().waitFor();
  await place.getByRole('button', { name: /infos/ }).click();
  await counts(place.locator('.rule'), 0);
  await place.getByRole('button', { name: /Check the values too/ }).click();
  // What needed the values is checked now, and nothing is offered any more.
  await reads(place, /No problems found[\s\S]*\d+ of \d+ rules checked(?!; \d+ more look at the values)/);
  await counts(place.getByRole('button', { name: /Check the values too/ }), 0);
  assertNoComplaints(page);
});

test('metadata unfolds, is searched and is kept in the address', async ({ context, address }) => {
  const page = await openSample(context, address);
  await tab(page, 'Metadata').click();
  await page.getByRole('button', { name: /config\.json/ }).click();
  await page.waitForURL(/#metadata\/config\.json$/);
  await page.getByRole('searchbox', { name: 'Search in the document' }).fill('block');
  await reads(page.locator('.json').first(), /^(?!.*hidden_act).*weight_block_size/);
  await page.goBack();
  await selected(page, 'Metadata');
  await page.goBack();
  await selected(page, 'Overview');
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
  await reads(summary, /^4 tensors: 1 the same, 1 of another dtype, 1 gone, 1 new\.$/);
  await page.getByRole('button', { name: 'Compare the values' }).click();
  await summary.filter({ hasText: '1 different' }).waitFor();
  await page.locator('.comparison summary').filter({ hasText: 'different' }).click();
  await reads(page.locator('.comparison'), /v F32 2, 1 value differs, by at most 0\.5/);
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
    await drawn(page);
    await fits();
  }
  await page.goto(`${address}#tensors/model.norm.weight`);
  await page.locator('.tensor-detail').getByText('Maximum').waitFor();
  await fits();
});

test('roles, names and headings are there', async ({ context, address }) => {
  const page = await openPage(context, address);
  await page.getByRole('region', { name: 'Drop a checkpoint here' }).waitFor();
  await drop(page, [sample]);
  await opened(page);
  for (const name of ['Overview', 'Tensors', 'Check', 'Convert', 'Metadata']) {
    await tab(page, name).click();
    await selected(page, name);
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
  await selected(page, 'Overview');
});
