// What the tests over several contexts share: pages, server, browser, and agents that are ended with the
// test.

import { test as nodeTest } from 'node:test';
import { openProcess, openTab } from './agents.mjs';
import { launchChromium } from './chromium.mjs';
import { cleanups } from './cleanup.mjs';
import { startPages } from './pages.mjs';
import { startServer } from './server.mjs';

/**
 * `native` if `SURFACE=native`: then the engine's own locks are tested, without a server and without Node
 * clients.
 */
export const mode = process.env.SURFACE === 'native' ? 'native' : 'lockhouse';
export const native = mode === 'native';

const TEST_TIMEOUT_MS = 60_000;

/** Starts everything; `env` is what agents need to know, `end` ends all of it in reverse order. */
export async function startLab({ lease, serverArgs = () => [], browser = true, chromium = () => ({}) } = {}) {
  const started = cleanups();
  try {
    const pages = await startPages();
    started.keep(pages, () => pages.close());
    const server = native ? undefined : await startServer({ lease, args: serverArgs(pages) });
    const lab = { pages, server, env: { mode, origin: pages.origin, url: server?.url, realm: 'agent' } };
    if (server) started.keep(server, () => lab.server.kill());
    if (browser) {
      lab.browser = await launchChromium(chromium(pages));
      started.keep(lab.browser, () => lab.browser.close());
    }
    return Object.assign(lab, { keep: started.keep, end: started.end });
  } catch (error) {
    await started.end().catch(() => {});
    throw error;
  }
}

/** As `test` of node:test, and a promise that never settles fails it. */
export const test = (title, body) => nodeTest(title, { timeout: TEST_TIMEOUT_MS }, body);

let names = 0;

/** The contexts of one test: tabs of one browser context and Node processes, ended when the test ends. */
export function bench(t, lab) {
  const started = cleanups();
  let context;
  t.after(() => started.end());
  const own = async () => {
    if (!context) {
      context = await lab.browser.newContext();
      started.keep(context, () => context.close());
    }
    return context;
  };
  return {
    name: `${process.pid}:${names++}`,
    keep: started.keep,
    context: own,
    tab: async (options) => openTab(await own(), lab.env, options),
    async process(options) {
      const agent = await openProcess(lab.env, options);
      return started.keep(agent, () => agent.kill());
    },
  };
}
