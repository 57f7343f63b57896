// Builds `dist/`, or the folder of `--outDir`: one ES module, its type declarations, and one classic script
// that defines `globalThis.lockhouse`.

import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';

const root = dirname(fileURLToPath(import.meta.url));
const { values } = parseArgs({
  // `emptyOutDir` is what the dashboard's build needs to be told; here the folder is always emptied.
  options: { outDir: { type: 'string', default: 'dist' }, emptyOutDir: { type: 'boolean' } },
});
const dist = resolve(root, values.outDir);
const common = {
  absWorkingDir: root,
  bundle: true,
  target: 'es2022',
  charset: 'ascii',
  legalComments: 'none',
  logLevel: 'warning',
};

rmSync(dist, { recursive: true, force: true });
await build({ ...common, entryPoints: ['src/index.ts'], format: 'esm', outfile: join(dist, 'lockhouse.js') });
await build({ ...common, entryPoints: ['src/global.ts'], format: 'iife', outfile: join(dist, 'lockhouse.global.js') });

const compiler = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc');
const declarations = ['--declaration', '--emitDeclarationOnly', '--noEmit', 'false', '--outDir', join(dist, 'types')];
execFileSync(process.execPath, [compiler, '--project', 'tsconfig.json', ...declarations], {
  cwd: root,
  stdio: 'inherit',
});
