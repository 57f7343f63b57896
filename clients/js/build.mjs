// Builds `dist/`: one ES module, its type declarations, and one classic script that defines
// `globalThis.lockhouse`.

import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = dirname(fileURLToPath(import.meta.url));
const common = {
  absWorkingDir: root,
  bundle: true,
  target: 'es2022',
  charset: 'ascii',
  legalComments: 'none',
  logLevel: 'warning',
};

rmSync(join(root, 'dist'), { recursive: true, force: true });
await build({ ...common, entryPoints: ['src/index.ts'], format: 'esm', outfile: 'dist/lockhouse.js' });
await build({ ...common, entryPoints: ['src/global.ts'], format: 'iife', outfile: 'dist/lockhouse.global.js' });

const compiler = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc');
const declarations = ['--declaration', '--emitDeclarationOnly', '--noEmit', 'false', '--outDir', 'dist/types'];
execFileSync(process.execPath, [compiler, '--project', 'tsconfig.json', ...declarations], {
  cwd: root,
  stdio: 'inherit',
});
