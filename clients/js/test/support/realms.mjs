// Opens each kind of realm and speaks to the suite in it: `call({ call: 'titles' })`,
// `call({ call: 'run', title })`.

import { Worker } from 'node:worker_threads';
import { startChild } from './child.mjs';
import { realmUrl } from './pages.mjs';

/** Code that runs in a page: keeps the worker of a kind and sends it messages. */
function keepTarget([kind, url]) {
  const start = {
    'classic worker': () => new Worker(url),
    'module worker': () => new Worker(url, { type: 'module' }),
    'shared worker': () => new SharedWorker(url).port,
    'service worker': async () => {
      const registration = await navigator.serviceWorker.register(url, { scope: '/realm/' });
      const worker = registration.installing ?? registration.waiting ?? registration.active;
      if (worker.state === 'activated') return worker;
      return new Promise((resolve, reject) =>
        worker.addEventListener('statechange', () => {
          if (worker.state === 'activated') resolve(worker);
          if (worker.state === 'redundant') reject(new Error('the service worker did not install'));
        }),
      );
    },
  }[kind];
  const failed = new Promise((_, reject) => {
    globalThis.failure = reject;
  });
  failed.catch(() => {});
  globalThis.target = Promise.resolve(start()).then((target) => {
    target.onerror = (event) => globalThis.failure(new Error(`${kind}: ${event.message ?? 'failed to load'}`));
    return target;
  });
  globalThis.callTarget = async (message) => {
    const target = await globalThis.target;
    const { port1, port2 } = new MessageChannel();
    const answer = new Promise((resolve) => (port1.onmessage = ({ data }) => resolve(data)));
    target.postMessage(message, [port2]);
    return Promise.race([answer, failed]);
  };
}

const WORKERS = {
  'classic worker': 'classic',
  'module worker': 'module',
  'shared worker': 'shared',
  'service worker': 'service',
};
export const BROWSER_REALMS = ['window', 'iframe', 'popup', ...Object.keys(WORKERS)];
export const NODE_REALMS = ['node', 'node worker'];

const inWindow = (target) => (message) =>
  target.evaluate(({ call, title }) => (call === 'titles' ? surface.titles() : surface.run(title)), message);

/** Opens a realm of the browser in a new context; `close` ends it. */
export async function openBrowserRealm(browser, realm, { origin, mode, url }) {
  const context = await browser.newContext();
  const page = await context.newPage();
  const at = (path, name = realm) => realmUrl(origin, path, { realm: name, mode, url });
  const close = () => context.close();
  if (realm === 'window') {
    await page.goto(at('/realm/window.html'));
    return { call: inWindow(page), close };
  }
  await page.goto(`${origin}/bare.html`);
  if (realm === 'iframe') {
    await page.evaluate(
      (src) =>
        new Promise((resolve) => {
          const frame = document.createElement('iframe');
          frame.addEventListener('load', resolve);
          frame.src = src;
          document.body.append(frame);
        }),
      at('/realm/window.html'),
    );
    return { call: inWindow(page.frames()[1]), close };
  }
  if (realm === 'popup') {
    const [popup] = await Promise.all([
      context.waitForEvent('page'),
      page.evaluate((to) => void window.open(to, '', 'popup'), at('/realm/window.html')),
    ]);
    await popup.waitForLoadState('load');
    return { call: inWindow(popup), close };
  }
  await page.evaluate(keepTarget, [realm, at(`/realm/${WORKERS[realm]}.js`)]);
  return { call: (message) => page.evaluate((sent) => callTarget(sent), message), close };
}

const NODE_REALM = new URL('../surface/node-realm.mjs', import.meta.url);

/**
 * Starts the suite in a Node process or, for `node worker`, in a thread of this one: each has its own event
 * loop and client.
 */
export async function openNodeRealm(realm, { mode, url }) {
  if (realm !== 'node worker') {
    const child = await startChild(NODE_REALM, [JSON.stringify({ realm, mode, url })]);
    return { call: async (message) => (await child.ask(message)).value, close: () => child.kill() };
  }
  const worker = new Worker(NODE_REALM, { workerData: { realm, mode, url } });
  const failed = new Promise((_, reject) => worker.once('error', reject));
  failed.catch(() => {});
  const call = async (message) => {
    const { port1, port2 } = new MessageChannel();
    const answer = new Promise((resolve) => port1.once('message', resolve));
    worker.postMessage({ message, port: port2 }, [port2]);
    return Promise.race([answer, failed]).finally(() => port1.close());
  };
  return { call, close: () => worker.terminate() };
}
