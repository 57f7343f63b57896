// The modules of `src` as they are, translated by the bundler that builds them.

import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createServer } from 'vite';

const root = fileURLToPath(new URL('../..', import.meta.url));
const vite = await createServer({
  root,
  logLevel: 'silent',
  appType: 'custom',
  server: { middlewareMode: true, hmr: false, ws: false, watch: null },
});
after(() => vite.close());

/** A module below `src`. */
export const load = (path) => vite.ssrLoadModule(`/src/${path}`);
