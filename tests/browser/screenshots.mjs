// Screenshots of the main views for the documentation: node screenshots.mjs [FOLDER], docs/screenshots when absent.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { at, clearStorage, drop, launch, opened, openPage, removeScratch, sample, servePage, tab } from './harness.mjs';

const folder = process.argv[2] ?? at('docs/screenshots');
const sizes = { desktop: { width: 1200, height: 750 }, phone: { width: 390, height: 780 } };
mkdirSync(folder, { recursive: true });

const { server, address } = await servePage();
const context = await launch();
try {
  for (const theme of ['light', 'dark']) {
    for (const [device, size] of Object.entries(sizes)) {
      const page = await openPage(context, address);
      await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' });
      await page.setViewportSize(size);
      await clearStorage(page);
      const shoot = async (name) => {
        await page.mouse.move(0, 0);
        await page.evaluate(() => document.fonts.ready);
        await page.waitForTimeout(250);
        await page.screenshot({ path: join(folder, `${name}-${device}-${theme}.png`) });
      };
      await shoot('start');
      await drop(page, [sample]);
      await opened(page);
      await shoot('overview');
      await page.goto(`${address}#tensors/model.layers.0.mlp.up_proj.weight`);
      await page.locator('.tensor-detail').getByText('Maximum').waitFor();
      await shoot('tensor');
      await tab(page, 'Convert').click();
      await page.getByRole('button', { name: /Dequantise FP8/ }).click();
      await page.locator('.plan .button.primary').waitFor();
      await shoot('convert');
      await page.close();
      const damaged = await openPage(context, address, '#check');
      await damaged.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' });
      await damaged.setViewportSize(size);
      await drop(damaged, [at('tests/golden/safetensors/cases/multi-b/model.safetensors')]);
      await opened(damaged);
      await damaged.evaluate(() => document.fonts.ready);
      await damaged.waitForTimeout(250);
      await damaged.screenshot({ path: join(folder, `check-${device}-${theme}.png`) });
      await damaged.close();
    }
  }
} finally {
  await context.close();
  server.closeAllConnections();
  server.close();
  removeScratch();
}
