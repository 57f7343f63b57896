// The entry point of a Node process or worker thread that runs the suite on request.

import { isMainThread, parentPort, workerData } from 'node:worker_threads';
import { suiteScripts } from '../support/pages.mjs';

const { realm, mode, url } = isMainThread ? JSON.parse(process.argv[2]) : workerData;
globalThis.surfaceConfig = { realm, mode, url };
if (mode === 'lockhouse') {
  globalThis.lockhouse = await import('lockhouse');
  const { WebSocket } = globalThis.WebSocket ? globalThis : await import('ws');
  globalThis.lockhouseOptions = { WebSocket };
  globalThis.installed = lockhouse.install(url, lockhouseOptions);
}
for (const script of await suiteScripts()) await import(new URL(script, import.meta.url).href);

if (isMainThread) {
  process.on('message', ({ id, ...message }) =>
    surface.serve(message, { postMessage: (value) => process.send({ id, value }) }),
  );
  process.on('disconnect', () => process.exit(0));
  process.send({ ready: true });
} else {
  parentPort.on('message', ({ message, port }) => surface.serve(message, port));
}
