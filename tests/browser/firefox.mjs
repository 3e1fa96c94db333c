// The core flow in Firefox ESR: open, look, check, convert, download. Prints `N passed, M failed`.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import puppeteer from 'puppeteer-core';
import { native, patience, removeScratch, sample, scratch, servePage } from './harness.mjs';

const { server, address } = await servePage();
let browser;
let failed = 0;
try {
  browser = await puppeteer.launch({ browser: 'firefox', executablePath: '/usr/bin/firefox-esr', headless: true, userDataDir: scratch(), args: ['--width=1280', '--height=800'], timeout: patience, protocolTimeout: 2 * patience, extraPrefsFirefox: { 'network.proxy.type': 0 } });
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  await page.goto(address);
  const reads = (selector, pattern) =>
    page.waitForFunction((place, source) => new RegExp(source).test(document.querySelector(place)?.innerText.replace(/\s+/g, ' ') ?? ''), {}, selector, pattern.source);
  const click = async (selector) => (await page.waitForSelector(selector, { visible: true })).click();
  const input = await page.waitForSelector('input[data-testid=files]');
  await input.uploadFile(join(sample, 'model-00001-of-00002.safetensors'));
  await reads('h1.sentence', /FP8.*kB\. (?!Checking)/);

  await click('#tab-tensors');
  await reads('[role=grid]', /up_proj/);
  await click('#tab-check');
  await reads('.check-place', /rules checked/);

  await click('#tab-convert');
  await click('.card');
  await click('.plan .button.primary');
  await page.waitForSelector('.downloads li');
  await reads('.run', /Written/);
  const downloaded = await page.evaluate(async () => {
    let address;
    const create = URL.createObjectURL;
    URL.createObjectURL = (blob) => (address = blob, create.call(URL, blob));
    document.querySelector('.downloads li button').click();
    return [...new Uint8Array(await address.arrayBuffer())];
  });
  const expected = join(scratch(), 'out.safetensors');
  assert.equal(native('tftf', ['dequant-fp8', '-i', join(sample, 'model-00001-of-00002.safetensors'), '-o', expected]).status, 0);
  assert.ok(Buffer.from(downloaded).equals(readFileSync(expected)));
} catch (error) {
  failed = 1;
  console.log(`FAIL  the core flow in Firefox\n${error.stack ?? error}`);
} finally {
  // Asked to close it may leave without an answer, and that is waited for in vain.
  const child = browser?.process();
  if (child && child.exitCode === null) {
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }
  server.closeAllConnections();
  server.close();
  removeScratch();
}
if (!failed) console.log('ok    the core flow in Firefox');
console.log(`${1 - failed} passed, ${failed} failed`);
process.exit(failed);
