// What the tests of the page share: a list of tests run one after the other, the browser, drops of real files.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, mkdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { serve } from '../../web/server.mjs';

export const top = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
export const at = (...parts) => join(top, ...parts);
export const sample = at('docs/sample/qwen3-tiny-fp8');

export const tests = [];
export const test = (title, work) => tests.push({ title, work });

// Nothing here is waited for by the clock. These only end what will never come, on a machine however busy.
export const patience = 120_000;
export const testLimit = 300_000;

const rubbish = [];
export function scratch() {
  const folder = mkdtempSync(join(tmpdir(), 'tftf-page-'));
  rubbish.push(folder);
  return folder;
}
export function removeScratch() {
  // A browser that has just been closed may still write into its profile.
  for (const folder of rubbish) rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 });
}

// A native program of the release build.
export function native(program, args, options = {}) {
  const path = at('build/release/bin', program);
  if (!existsSync(path)) throw new Error(`${path} is not there: build the preset release first`);
  try {
    return { status: 0, stdout: execFileSync(path, args, { maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'ignore'], ...options }) };
  } catch (error) {
    if (typeof error.status !== 'number') throw error;
    return { status: error.status, stdout: error.stdout };
  }
}

export async function launch() {
  const context = await chromium.launchPersistentContext(join(scratch(), 'profile'), {
    executablePath: '/usr/bin/chromium',
    viewport: { width: 1280, height: 800 },
    acceptDownloads: true,
    timeout: patience,
    // No name is looked up and no proxy asked: what the tests need is on this machine.
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-proxy-server', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
  });
  context.setDefaultTimeout(patience);
  return context;
}

export async function servePage(options) {
  return serve(at('build/web'), options);
}

// The page, opened anew, with a record of everything it asked for and complained about.
export async function openPage(context, address, hash = '') {
  const page = await context.newPage();
  page.requests = [];
  page.complaints = [];
  page.on('request', (request) => page.requests.push({ url: request.url(), method: request.method(), headers: request.headers() }));
  page.on('pageerror', (error) => page.complaints.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error' || /Content.Security.Policy/i.test(message.text())) page.complaints.push(message.text());
  });
  page.on('dialog', (dialog) => {
    page.complaints.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(address + hash);
  await page.getByText('Nothing leaves this machine').waitFor({ state: 'attached' });
  return page;
}

// Drops real files and folders, as a person would.
export async function drop(page, paths) {
  const session = await page.context().newCDPSession(page);
  const data = { items: [], files: paths, dragOperationsMask: 1 };
  for (const type of ['dragEnter', 'dragOver', 'drop']) await session.send('Input.dispatchDragEvent', { type, x: 150, y: 200, data });
  await session.detach();
}

// What a person reads there, on one line.
export const textOf = async (locator) => (await locator.innerText()).replace(/\s+/g, ' ');

// Waits until `look` answers with something true, and gives that back; `what` says what did not come.
export async function until(look, what) {
  const end = Date.now() + patience;
  for (let pause = 10; ; pause = Math.min(2 * pause, 500)) {
    const answer = await look();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`this never came: ${typeof what === 'function' ? what() : what}`);
    await new Promise((done) => setTimeout(done, pause));
  }
}
// Waits until a person reads `pattern` there. Give it the place alone: the live region at the end of the page repeats words.
export async function reads(locator, pattern) {
  let text = '';
  await until(async () => pattern.test((text = await textOf(locator))), () => `${pattern} in "${text.slice(0, 2000)}"`);
  return text;
}
export const counts = (locator, number) => until(async () => (await locator.count()) === number, `${number} of ${locator}`);
export const selected = (page, name) => until(async () => (await tab(page, name).getAttribute('aria-selected')) === 'true', `the tab ${name}`);
// Everything that was to be drawn by now has been.
export const drawn = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
// Has the page itself click buttons of these words, each as soon as it is there: what one stops could end before a test
// hears that it has begun. The first one only once `there` is.
export async function clickInTurn(page, words, there = 'body') {
  await page.evaluate(([left, place]) => {
    const look = () => {
      if (!document.querySelector(place)) return;
      const button = [...document.querySelectorAll('button')].find((one) => one.textContent.trim() === left[0] && !one.disabled);
      if (!button) return;
      left.shift();
      if (left.length === 0) watcher.disconnect();
      button.click();
    };
    const watcher = new MutationObserver(look);
    watcher.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
    look();
  }, [words, there]);
}
export const sentence = (page) => page.locator('h1.sentence');
export async function opened(page) {
  await sentence(page).waitFor();
  return until(async () => {
    const text = await textOf(sentence(page));
    return !text.includes('Checking') && text;
  }, 'the end of the check');
}
export const tab = (page, name) => page.getByRole('tab', { name, exact: true });

// Files in the page's own storage as picked ones: the dialogs themselves cannot be answered in a headless browser.
export async function stubPickers(page) {
  await page.evaluate(() => {
    const root = navigator.storage.getDirectory();
    window.showSaveFilePicker = async ({ suggestedName }) => (await root).getFileHandle(suggestedName, { create: true });
    window.showDirectoryPicker = async () => (await root).getDirectoryHandle('picked', { create: true });
  });
}
// What a page that has just been closed was writing is held for a moment more.
export async function clearStorage(page) {
  const clear = async () => {
    const root = await navigator.storage.getDirectory();
    const names = await Array.fromAsync(root.keys());
    const done = await Promise.allSettled(names.map((name) => root.removeEntry(name, { recursive: true })));
    return done.every(({ status }) => status === 'fulfilled');
  };
  await until(() => page.evaluate(clear), 'an empty storage');
}
// Names and sizes of what lies in the page's storage.
export async function storedSizes(page) {
  return page.evaluate(async () => {
    const found = {};
    const look = async (folder, prefix) => {
      for await (const [name, handle] of folder.entries()) {
        if (handle.kind === 'file') found[prefix + name] = (await handle.getFile()).size;
        else await look(handle, `${prefix}${name}/`);
      }
    };
    await look(await navigator.storage.getDirectory(), '');
    return found;
  });
}
export async function storedFile(page, path) {
  const encoded = await page.evaluate(async (name) => {
    let folder = await navigator.storage.getDirectory();
    const parts = name.split('/');
    for (const part of parts.slice(0, -1)) folder = await folder.getDirectoryHandle(part);
    const file = await (await folder.getFileHandle(parts.at(-1))).getFile();
    const address = await new Promise((done) => {
      const reader = new FileReader();
      reader.onload = () => done(reader.result);
      reader.readAsDataURL(file);
    });
    return address.slice(address.indexOf(',') + 1);
  }, path);
  return Buffer.from(encoded, 'base64');
}

// A safetensors file of the given tensors: [name, dtype, shape, bytes].
export function safetensors(tensors, metadata) {
  const header = metadata ? { __metadata__: metadata } : {};
  const parts = [];
  let offset = 0;
  for (const [name, dtype, shape, bytes] of tensors) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + bytes.length] };
    offset += bytes.length;
    parts.push(bytes);
  }
  let text = Buffer.from(JSON.stringify(header));
  text = Buffer.concat([text, Buffer.alloc((8 - (text.length % 8)) % 8, 0x20)]);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, ...parts]);
}

export function assertNoComplaints(page) {
  if (page.complaints.length > 0) throw new Error(`the page complained: ${page.complaints.join('; ')}`);
}

export const artefacts = at('build/test/browser');
mkdirSync(artefacts, { recursive: true });
