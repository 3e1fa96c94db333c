// How much memory a conversion of 2 GiB of FP8 takes in Chromium, and how fast it is: the PSS of the page's renderer above
// that of the open, empty page, sampled from /proc. Takes minutes and 6 GiB of disk; not part of the test suite.
//   node memory.mjs [GIBIBYTES]
import { readFileSync, readdirSync, openSync, writeSync, closeSync } from 'node:fs';
import { join } from 'node:path';
import { clearStorage, drop, launch, opened, openPage, removeScratch, scratch, servePage, stubPickers, tab } from './harness.mjs';

const gibibytes = Number(process.argv[2] ?? 2);
const limitBytes = 300e6;

function makeModel(path) {
  const rows = 4096;
  const columns = 4096;
  const count = gibibytes * 64;
  const header = {};
  let offset = 0;
  for (let i = 0; i < count; i += 1) {
    const name = `model.layers.${i}.mlp.up_proj.weight`;
    header[name] = { dtype: 'F8_E4M3', shape: [rows, columns], data_offsets: [offset, (offset += rows * columns)] };
    header[`${name}_scale_inv`] = { dtype: 'F32', shape: [rows / 128, columns / 128], data_offsets: [offset, (offset += (rows / 128) * (columns / 128) * 4)] };
  }
  let text = Buffer.from(JSON.stringify(header));
  text = Buffer.concat([text, Buffer.alloc((8 - (text.length % 8)) % 8, 0x20)]);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const file = openSync(path, 'w');
  writeSync(file, length);
  writeSync(file, text);
  const codes = Buffer.alloc(rows * columns);
  for (let i = 0; i < codes.length; i += 1) codes[i] = (i * 2654435761) >>> 25;
  const scales = new Float32Array((rows / 128) * (columns / 128)).fill(0.01);
  for (let i = 0; i < count; i += 1) {
    writeSync(file, codes);
    writeSync(file, Buffer.from(scales.buffer));
  }
  closeSync(file);
}

const parentOf = (id) => Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${id}/status`, 'utf8'))?.[1]);

// Renderers below this process.
function renderers() {
  const found = [];
  for (const id of readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map(Number)) {
    try {
      if (!readFileSync(`/proc/${id}/cmdline`, 'utf8').includes('--type=renderer')) continue;
      let at = id;
      while (at > 1 && at !== process.pid) at = parentOf(at);
      if (at === process.pid) found.push(id);
    } catch {
      // It has ended.
    }
  }
  return found;
}
function pss(id) {
  try {
    return Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${id}/smaps_rollup`, 'utf8'))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

const { server, address } = await servePage();
const context = await launch();
try {
  const page = await openPage(context, address);
  await page.waitForTimeout(1500);
  await clearStorage(page);
  await stubPickers(page);
  const before = new Map(renderers().map((id) => [id, pss(id)]));
  if (before.size === 0) throw new Error('no renderer was found in /proc');
  const file = join(scratch(), 'model.safetensors');
  makeModel(file);
  await drop(page, [file]);
  await opened(page);
  await tab(page, 'Convert').click();
  await page.getByRole('button', { name: /Dequantise FP8/ }).click();
  await page.locator('.plan .button.primary').click();
  const peak = new Map(before);
  const timer = setInterval(() => {
    for (const [id, most] of peak) peak.set(id, Math.max(most, pss(id)));
  }, 100);
  const began = Date.now();
  await page.getByRole('heading', { name: 'Written', exact: true }).waitFor({ timeout: 1_200_000 });
  clearInterval(timer);
  const seconds = (Date.now() - began) / 1000;
  const times = await page.locator('.run-times').textContent();
  const [id] = [...peak].sort((a, b) => b[1] - before.get(b[0]) - (a[1] - before.get(a[0])))[0];
  const more = peak.get(id) - before.get(id);
  const megabytes = (bytes) => `${(bytes / 1e6).toFixed(0)} MB`;
  console.log(`open page ${megabytes(before.get(id))}, peak ${megabytes(peak.get(id))}: ${megabytes(more)} more`);
  console.log(`${gibibytes} GiB of FP8 in ${seconds.toFixed(1)} s: ${((gibibytes * 2 ** 30) / 1e9 / seconds).toFixed(2)} GB/s read, twice that written`);
  console.log(times);
  process.exitCode = more < limitBytes ? 0 : 1;
} finally {
  await context.close();
  server.closeAllConnections();
  server.close();
  removeScratch();
}
