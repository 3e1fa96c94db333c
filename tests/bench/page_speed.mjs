// How long large models take in the built page (build/web), in Chromium: node tests/bench/page_speed.mjs prints until 8 GiB in
// one file and 163 shards with 92,000 tensors are open, and how long a letter in the filter of the latter takes.
import { drop, launch, openPage, removeScratch, sentence, servePage, tab } from '../browser/harness.mjs';
import { sparseFile, sparseShards } from '../browser/large_models.mjs';

const print = (what, figure) => console.log(`${what.padEnd(40)} ${figure}`);

async function secondsToOpen(page, path) {
  const began = performance.now();
  await drop(page, [path]);
  await sentence(page).waitFor();
  return ((performance.now() - began) / 1000).toFixed(2);
}

const { server, address } = await servePage();
const context = await launch();
try {
  print('a file of 8 GiB opens in', `${await secondsToOpen(await openPage(context, address), sparseFile(8))} s`);
  const page = await openPage(context, address);
  print('163 shards with 92,000 tensors open in', `${await secondsToOpen(page, sparseShards())} s`);
  await tab(page, 'Tensors').click();
  await page.getByRole('checkbox', { name: 'Fold layers' }).uncheck();
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
  print('a letter in the filter', `${milliseconds.toFixed(1)} ms`);
} finally {
  await context.close();
  server.closeAllConnections();
  server.close();
  removeScratch();
}
