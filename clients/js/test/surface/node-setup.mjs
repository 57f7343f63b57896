// Makes a Node thread run the suite: with the client in mode `lockhouse`, else with the locks that newer versions of Node have.

import { suiteScripts } from '../support/pages.mjs';

/** Loads the suite into this thread and returns it with a way to end the client. */
export async function loadSuite({ realm, mode, url }) {
  let client;
  if (mode === 'lockhouse') {
    const [{ connect }, { WebSocket }] = await Promise.all([import('../../dist/index.js'), import('ws')]);
    client = connect(url, { WebSocket: globalThis.WebSocket ?? WebSocket });
  }
  globalThis.surfaceConfig = { realm, mode, url, connectLocks: client && (() => client.locks) };
  for (const script of await suiteScripts()) await import(new URL(script, import.meta.url).href);
  return { suite: globalThis.surface, close: () => client?.close() };
}
