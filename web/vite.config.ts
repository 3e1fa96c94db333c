import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig, type Plugin } from 'vite';
import { metaPolicy } from './policy.mjs';

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

// The example that the start page offers; it is fetched when asked for and so no part of the page's weight.
function example(): Plugin {
  const folder = at('../docs/sample/qwen3-tiny-fp8');
  return {
    name: 'example',
    apply: 'build',
    generateBundle() {
      for (const name of readdirSync(folder)) {
        this.emitFile({ type: 'asset', fileName: `example/${name}`, source: readFileSync(`${folder}/${name}`) });
      }
    },
  };
}

// The policy as a meta element, for servers that send no headers of ours.
function policy(): Plugin {
  return {
    name: 'policy',
    apply: 'build',
    transformIndexHtml: () => [
      { tag: 'meta', attrs: { 'http-equiv': 'Content-Security-Policy', content: metaPolicy }, injectTo: 'head-prepend' },
    ],
  };
}

// The service worker, with the list of the page's files and a name that changes with their content.
function offline(): Plugin {
  return {
    name: 'offline',
    apply: 'build',
    generateBundle: {
      order: 'post',
      handler(_, bundle) {
        const files = readdirSync(at('public')).concat(Object.keys(bundle).filter((name) => !name.startsWith('example/'))).sort();
        const hash = createHash('sha256');
        for (const name of files) {
          const entry = bundle[name];
          const content = entry === undefined ? readFileSync(at(`public/${name}`)) : entry.type === 'chunk' ? entry.code : entry.source;
          hash.update(name).update('\0').update(content);
        }
        const source = readFileSync(at('service_worker.js'), 'utf8')
          .replace('__FILES__', JSON.stringify(files))
          .replace('__VERSION__', JSON.stringify(hash.digest('hex').slice(0, 16)));
        this.emitFile({ type: 'asset', fileName: 'service_worker.js', source });
      },
    },
  };
}

export default defineConfig({
  base: './',
  resolve: { alias: { tftf: at('../build/wasm/package/dist/index.js') } },
  worker: { format: 'es' },
  build: {
    outDir: at('../build/web'),
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  plugins: [example(), policy(), offline()],
});
