import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

// The tests run the built package, as its users do.
export default defineConfig({
  resolve: {
    alias: { tftf: fileURLToPath(new URL('../build/wasm/package/dist/node.js', import.meta.url)) },
  },
  test: {
    include: ['test/**/*.test.ts'],
    pool: 'forks',
    testTimeout: 120_000,
    hookTimeout: 120_000,
    passWithNoTests: false,
  },
});
