// Makes the package in build/wasm/package: TypeScript compiled, beside the module that CMake has built.
// usage: node scripts/build.mjs
import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const here = name => fileURLToPath(new URL(`../${name}`, import.meta.url));
const built = here('../build/wasm/bin');
const target = here('../build/wasm/package');

if (!existsSync(`${built}/core.wasm`)) {
  console.error('build/wasm/bin/core.wasm is not there: cmake --preset wasm && cmake --build --preset wasm makes it.');
  process.exit(1);
}
if (!existsSync(here('node_modules/typescript'))) {
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: here('.'), stdio: 'inherit' });
}
rmSync(target, { recursive: true, force: true });
mkdirSync(`${target}/dist`, { recursive: true });
execFileSync(process.execPath, [here('node_modules/typescript/bin/tsc'), '-p', here('tsconfig.json')], { stdio: 'inherit' });
for (const name of ['core.mjs', 'core.wasm']) copyFileSync(`${built}/${name}`, `${target}/dist/${name}`);
copyFileSync(here('src/core.d.mts'), `${target}/dist/core.d.mts`);
cpSync(here('bin'), `${target}/bin`, { recursive: true });
copyFileSync(here('README.md'), `${target}/README.md`);
copyFileSync(here('../LICENSE'), `${target}/LICENSE`);
const { scripts, devDependencies, ...manifest } = JSON.parse(readFileSync(here('package.json'), 'utf8'));
writeFileSync(`${target}/package.json`, `${JSON.stringify(manifest, null, 2)}\n`);
