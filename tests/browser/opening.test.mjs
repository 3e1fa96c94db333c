// Opening: example, drops, pickers, addresses, and what cannot be opened.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { at, assertNoComplaints, drawn, drop, opened, openPage, reads, safetensors, sample, scratch, sentence, tab, test, textOf } from './harness.mjs';

test('the example opens and says what it is', async ({ context, address }) => {
  const page = await openPage(context, address);
  await page.getByRole('button', { name: 'Try the example' }).click();
  const text = await opened(page);
  assert.match(text, /^Qwen3 checkpoint: 285 k parameters in FP8 \(128 × 128 blocks\), 2 shards, 319 kB\. No errors, no warnings\.$/);
  assertNoComplaints(page);
});

test('a dropped folder opens', async ({ context, address }) => {
  const page = await openPage(context, address);
  await drop(page, [sample]);
  assert.match(await opened(page), /Qwen3 checkpoint: 285 k parameters/);
  await reads(page.locator('.input-name'), /^qwen3-tiny-fp8$/);
  assertNoComplaints(page);
});

test('a model of experts says how its names and experts are stored', async ({ context, address }) => {
  const page = await openPage(context, address);
  await drop(page, [at('tests/golden/experts/models/mixtral-v5')]);
  await opened(page);
  await reads(page.locator('.facts'), /Names\s*as in transformers 5\s*6 would move to those of 4\s*Experts\s*fused\s*2 containers/);
  assertNoComplaints(page);
});

test('loose shards with their index open as one model', async ({ context, address }) => {
  const page = await openPage(context, address);
  await drop(page, ['config.json', 'model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors', 'model.safetensors.index.json'].map((name) => join(sample, name)));
  assert.match(await opened(page), /Qwen3 checkpoint: 285 k parameters .* 2 shards/);
});

test('a missing shard is named and the rest is shown', async ({ context, address }) => {
  const page = await openPage(context, address);
  await drop(page, ['config.json', 'model-00001-of-00002.safetensors', 'model.safetensors.index.json'].map((name) => join(sample, name)));
  assert.match(await opened(page), /1 missing/);
  await reads(page.locator('.shards'), /model-00002-of-00002\.safetensors\s*missing/);
  await tab(page, 'Tensors').click();
  assert.ok(Number(await page.getByRole('grid').getAttribute('aria-rowcount')) > 5);
});

test('the file and folder pickers open files', async ({ context, address }) => {
  const page = await openPage(context, address);
  await page.getByTestId('folder').setInputFiles(sample);
  assert.match(await opened(page), /Qwen3 checkpoint/);
  const other = await openPage(context, address);
  await other.getByTestId('files').setInputFiles(at('tests/golden/safetensors/cases/multi-b/model.safetensors'));
  assert.match(await opened(other), /^Damaged weight file: 3 tensors, 228 bytes\. 4 errors, 2 warnings\.$/);
  assertNoComplaints(other);
});

test('what is no weight file is named for what it is', async ({ context, address }) => {
  const folder = scratch();
  const cases = {
    'page.safetensors': ['<!doctype html><html><body>Sign in</body></html>', /Not a sound weight file/, /TEXT|text/i],
    'pointer.safetensors': ['version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 4912345678\n', /This is a Git LFS pointer.*4\.91 GB.*git lfs pull/, /LFS/],
    'empty.safetensors': ['', /Not a sound weight file/, /empty/],
  };
  for (const [name, [content, summary, finding]] of Object.entries(cases)) {
    writeFileSync(join(folder, name), content);
    const page = await openPage(context, address);
    await drop(page, [join(folder, name)]);
    assert.match(await opened(page), summary);
    await tab(page, 'Check').click();
    await reads(page.locator('.rules'), finding);
    assertNoComplaints(page);
    await page.close();
  }
});

test('a picture is refused with what to do', async ({ context, address }) => {
  const folder = scratch();
  writeFileSync(join(folder, 'cat.png'), Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex'));
  const page = await openPage(context, address);
  await drop(page, [join(folder, 'cat.png')]);
  const text = await Promise.race([page.getByRole('alert').innerText(), opened(page)]);
  assert.match(text, /cat\.png|Not a sound weight file/);
});

test('hostile names are text', async ({ context, address }) => {
  const folder = scratch();
  const evil = '<img src=x onerror=alert(1)>';
  const turned = 'a\u202egnp.exe';
  const long = 'n'.repeat(1_000_000);
  const bytes = Buffer.alloc(4);
  writeFileSync(
    join(folder, 'hostile.safetensors'),
    safetensors([[evil, 'F32', [1], bytes], [turned, 'F32', [1], bytes], [long, 'F32', [1], bytes], ['</script><script>alert(2)</script>', 'F32', [1], bytes]], { [evil]: evil, json: JSON.stringify({ [evil]: [evil] }) }),
  );
  const page = await openPage(context, address);
  await drop(page, [join(folder, 'hostile.safetensors')]);
  await opened(page);
  for (const name of ['Tensors', 'Check', 'Metadata', 'Convert', 'Overview']) {
    await tab(page, name).click();
    await drawn(page);
    assert.equal(await page.locator('img, #page script').count(), 0);
  }
  await tab(page, 'Tensors').click();
  await reads(page.getByRole('grid'), /<img src=x onerror=alert\(1\)>/);
  await reads(page.getByRole('grid'), /a\\u\{202E\}gnp\.exe/);
  const table = await textOf(page.getByRole('grid'));
  assert.ok(!table.includes('\u202e'));
  assert.ok(table.length < 10_000);
  await page.getByRole('row').filter({ hasText: 'nnnnnn' }).click();
  await page.locator('.tensor-detail').waitFor();
  assertNoComplaints(page);
});

test('a folder of 10,000 files opens', async ({ context, address }) => {
  const folder = join(scratch(), 'many');
  mkdirSync(folder);
  for (let i = 0; i < 9_999; i += 1) writeFileSync(join(folder, `note-${i}.txt`), '');
  writeFileSync(join(folder, 'model.safetensors'), safetensors([['w', 'F32', [2], Buffer.alloc(8)]]));
  const page = await openPage(context, address);
  await drop(page, [folder]);
  assert.match(await opened(page), /2 (values|parameters)/);
  assertNoComplaints(page);
});

test('a folder without anything to read says so', async ({ context, address }) => {
  const folder = join(scratch(), 'nothing-here');
  mkdirSync(folder);
  writeFileSync(join(folder, 'readme.txt'), 'hello');
  const page = await openPage(context, address);
  await drop(page, [folder]);
  await reads(page.getByRole('alert'), /nothing-here/);
});
