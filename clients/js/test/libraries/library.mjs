// Tabs with a real library, which takes `navigator.locks` to be the engine's. `cargo xtask libraries`
// installs the libraries, and runs the tests of this folder on the client and natively.

import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { until } from '../support/cleanup.mjs';

/**
 * WA-SQLite's tests give a lock 5 ms to be granted, and to ask a server may take longer on a busy machine.
 * What they show does not depend on the length of the time.
 */
const PATIENCE = {
  name: 'patience',
  setup({ onLoad }) {
    onLoad({ filter: /WebLocksMixin\.test\.js$/ }, async ({ path }) => {
      const contents = await readFile(path, 'utf8');
      if (!contents.includes('lockTimeout: 5 ')) throw new Error('the timeout in these tests is another one');
      return { contents: contents.replaceAll('lockTimeout: 5 ', 'lockTimeout: 500 ') };
    });
  },
};

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
    plugins: [PATIENCE],
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

/** Waits until a request of any tab for the lock of this name waits. */
export const untilRequested = (tab, name) =>
  until(async () => (await tab.modes(name)).pending.length > 0, `${name} is waited for`);

/** Waits until no tab holds the lock of this name: another tab's request can overtake its release. */
export const untilFree = (tab, name) => until(async () => (await tab.modes(name)).held.length === 0, `${name} is free`);

/** Two tabs of one origin with the library. */
export const openTwo = async (own, script) => [await openLibrary(own, script), await openLibrary(own, script)];
