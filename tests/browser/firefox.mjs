// The core flow in Firefox ESR: open, look, check, convert, download. Prints `N passed, M failed`.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import puppeteer from 'puppeteer-core';
import { native, removeScratch, sample, scratch, servePage } from './harness.mjs';

const { server, address } = await servePage();
let browser;
let failed = 0;
try {
  browser = await puppeteer.launch({ browser: 'firefox', executablePath: '/usr/bin/firefox-esr', headless: true, args: ['--width=1280', '--height=800'] });
  const page = await browser.newPage();
  const text = (selector) => page.$eval(selector, (element) => element.innerText.replace(/\s+/g, ' '));
  await page.goto(address);
  const input = await page.waitForSelector('input[data-testid=files]');
  await input.uploadFile(join(sample, 'model-00001-of-00002.safetensors'));
  await page.waitForSelector('h1.sentence');
  await page.waitForFunction(() => !document.querySelector('h1.sentence').textContent.includes('Checking'));
  assert.match(await text('h1.sentence'), /FP8.*kB\./);

  await page.click('#tab-tensors');
  assert.match(await text('[role=grid]'), /up_proj/);
  await page.click('#tab-check');
  assert.match(await text('.check-place'), /rules checked/);

  await page.click('#tab-convert');
  await page.waitForSelector('.card');
  const cards = await page.$$('.card');
  await cards[0].click();
  await page.waitForSelector('.plan .button.primary');
  await page.click('.plan .button.primary');
  await page.waitForSelector('.downloads li');
  assert.match(await text('.run'), /Written/);
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
  await browser?.close().catch(() => {});
  server.closeAllConnections();
  server.close();
  removeScratch();
}
if (!failed) console.log('ok    the core flow in Firefox');
console.log(`${1 - failed} passed, ${failed} failed`);
process.exit(failed);
