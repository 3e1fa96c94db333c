// The tests of the built page (build/web) in Debian's Chromium: node run.mjs [WORD...] runs those whose title has one of
// the words. Prints a line per test and `N passed, M failed`.
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { artefacts, launch, removeScratch, servePage, testLimit, tests } from './harness.mjs';

const here = dirname(fileURLToPath(import.meta.url));
for (const name of readdirSync(here).filter((file) => file.endsWith('.test.mjs')).sort()) await import(pathToFileURL(join(here, name)));

const words = process.argv.slice(2);
const wanted = tests.filter(({ title }) => words.length === 0 || words.some((word) => title.includes(word)));
const { server, address } = await servePage();
const context = await launch();
let passed = 0;
let failed = 0;
for (const { title, work } of wanted) {
  const began = Date.now();
  let timer;
  try {
    const limit = new Promise((_, fail) => (timer = setTimeout(() => fail(new Error(`not done after ${testLimit / 1000} s`)), testLimit)));
    await Promise.race([work({ context, address }), limit]);
    passed += 1;
    console.log(`ok    ${title} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${title}\n${error.stack ?? error}`);
    const page = context.pages().at(-1);
    await page?.screenshot({ path: join(artefacts, `${title.replace(/\W+/g, '-').slice(0, 60)}.png`) }).catch(() => {});
  } finally {
    clearTimeout(timer);
  }
  for (const page of context.pages().slice(1)) await page.close().catch(() => {});
}
await context.close().catch(() => {});
server.closeAllConnections();
server.close();
removeScratch();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
