// Imports one module of `src/` for the tests of leaves, compiled in memory so that it is never stale.

import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/** Instances of other names are evaluated anew. */
export async function importSource(name, instance = '') {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL(`../../src/${name}.ts`, import.meta.url))],
    bundle: true,
    format: 'esm',
    target: 'es2022',
    write: false,
  });
  const code = Buffer.from(outputFiles[0].contents).toString('base64');
  return import(`data:text/javascript;base64,${code}#${instance}`);
}
