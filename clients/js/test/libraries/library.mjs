// Tabs with a real library, which takes `navigator.locks` to be the engine's: `cargo xtask libraries` installs
// the libraries and runs the tests of this folder, with the client and natively.

import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/** A script that puts what the source exports into the global `library`. */
export async function libraryScript(contents) {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: fileURLToPath(new URL('.', import.meta.url)) },
    bundle: true,
    format: 'iife',
    globalName: 'library',
    target: 'es2022',
    // SQLite's module asks for its own address, though it is given its program.
    define: { 'import.meta.url': 'location.href' },
    loader: { '.wasm': 'binary' },
    write: false,
  });
  return outputFiles[0].text;
}

/** A tab of the bench with the library. */
export async function openLibrary({ tab }, script) {
  const opened = await tab();
  await opened.page.addScriptTag({ content: script });
  return opened;
}

/** Two tabs of one origin with the library. */
export const openTwo = async (own, script) => [await openLibrary(own, script), await openLibrary(own, script)];
