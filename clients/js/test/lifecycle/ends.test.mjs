// How contexts end in a browser, and that requests that wait for them are granted within a second, with no
// other traffic at all.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { openFrame, openWorker } from '../support/agents.mjs';
import { bench, startLab, test } from '../support/lab.mjs';

const WITHIN_MS = 1000;

describe('contexts that end', () => {
  let lab;
  before(async () => {
    lab = await startLab({ lease: '60s' });
  });
  after(() => lab?.end());

  /**
   * Each end: opens a holder below a tab and gives it back with what ends it.
   * The lease is a minute, so that only a recognised end can help the waiter in time.
   */
  const ENDS = {
    'WL-006 WL-039 a closed tab': async (tab) => ({ holder: tab, end: () => tab.close() }),
    'WL-006 WL-039 a crashed tab': async (tab) => ({ holder: tab, end: () => crash(tab.page) }),
    'WL-039 a reloaded tab': async (tab) => ({ holder: tab, end: () => tab.page.reload() }),
    'WL-006 WL-039 a tab that navigates to another page': async (tab) => ({
      holder: tab,
      end: () => tab.page.goto(`${lab.env.origin}/bare.html`),
    }),
    'WL-039 a tab that navigates to another site': async (tab) => ({
      holder: tab,
      end: () => tab.page.goto(`${lab.env.origin.replace('127.0.0.1', 'localhost')}/bare.html`),
    }),
    'WL-039 a removed iframe': async (tab) => {
      const frame = await openFrame(tab.page, lab.env);
      return { holder: frame, end: () => frame.remove() };
    },
    'WL-039 a navigated iframe': async (tab) => {
      const frame = await openFrame(tab.page, lab.env);
      return { holder: frame, end: () => frame.frame.goto(`${lab.env.origin}/bare.html`) };
    },
    'WL-039 an iframe whose tab is closed': async (tab) => ({
      holder: await openFrame(tab.page, lab.env),
      end: () => tab.close(),
    }),
    'WL-040 a terminated worker': async (tab) => {
      const worker = await openWorker(tab.page, lab.env);
      return { holder: worker, end: () => worker.terminate() };
    },
    'WL-040 a terminated module worker': async (tab) => {
      const worker = await openWorker(tab.page, lab.env, 'module');
      return { holder: worker, end: () => worker.terminate() };
    },
    'WL-040 a worker that closes itself': async (tab) => {
      const worker = await openWorker(tab.page, lab.env);
      return { holder: worker, end: () => worker.post('close') };
    },
    'WL-040 a worker whose tab is closed': async (tab) => ({
      holder: await openWorker(tab.page, lab.env),
      end: () => tab.close(),
    }),
    'WL-040 a worker whose tab crashes': async (tab) => ({
      holder: await openWorker(tab.page, lab.env),
      end: () => crash(tab.page),
    }),
    'WL-040 a shared worker whose last tab is closed': async (tab) => ({
      holder: await openWorker(tab.page, lab.env, 'shared'),
      end: () => tab.close(),
    }),
    'WL-040 a service worker that the browser stops': async (tab) => {
      const session = await tab.page.context().newCDPSession(tab.page);
      await session.send('ServiceWorker.enable');
      return {
        holder: await openWorker(tab.page, lab.env, 'service'),
        end: () => session.send('ServiceWorker.stopAllWorkers'),
      };
    },
  };

  for (const [title, open] of Object.entries(ENDS)) {
    test(`${title} that holds a lock: the waiter is granted within a second`, async (t) => {
      const { tab, name } = bench(t, lab);
      const waiter = await tab();
      const { holder, end } = await open(await tab());
      await holder.ask('held', name);
      await holder.wait('held', 'granted');
      await waiter.ask('waiting', name);
      assert.deepEqual(await waiter.modes(name), { held: ['exclusive'], pending: ['exclusive'] });
      const start = Date.now();
      const ended = end();
      await waiter.wait('waiting', 'granted', WITHIN_MS);
      t.diagnostic(`granted after ${(await waiter.time('waiting', 'granted')) - start} ms`);
      await ended;
    });
  }

  test('WL-042 WL-043 a context that ends takes its waiting requests along, and nobody else sees an error', async (t) => {
    const { tab, name } = bench(t, lab);
    const [stays, goes] = [await tab(), await tab()];
    await stays.ask('held', name);
    await stays.wait('held', 'granted');
    await goes.ask('waiting', name);
    await goes.ask('other', `${name}:other`);
    await goes.wait('other', 'granted');
    await goes.ask('own', `${name}:other`);
    await stays.ask('behind', name);
    assert.equal((await stays.query(name)).pending.length + (await goes.query(`${name}:other`)).pending.length, 3);
    await stays.ask('next', `${name}:other`);
    await stays.query();
    await goes.close();
    await stays.wait('next', 'granted', WITHIN_MS);
    assert.deepEqual(await stays.modes(`${name}:other`), { held: ['exclusive'], pending: [] });
    assert.deepEqual(await stays.modes(name), { held: ['exclusive'], pending: ['exclusive'] });
    await stays.release('held');
    await stays.wait('behind', 'granted');
    assert.deepEqual(await stays.events('held'), ['granted', 'resolved']);
  });

  test('WL-007 of many that wait to be the primary exactly one is promoted when the primary dies', async (t) => {
    const { tab, name } = bench(t, lab);
    const primary = await tab();
    await primary.ask('primary', name);
    await primary.wait('primary', 'granted');
    const others = [await tab(), await tab(), await tab()];
    for (const other of others) {
      await other.ask('primary', name);
      await other.query(name);
    }
    await crash(primary.page);
    await others[0].wait('primary', 'granted', WITHIN_MS);
    assert.deepEqual(await others[2].modes(name), { held: ['exclusive'], pending: ['exclusive', 'exclusive'] });
    for (const other of others.slice(1)) assert.deepEqual(await other.events('primary'), []);
  });

  test('WL-045 WL-071 a reloaded tab is a new client', async (t) => {
    const { tab, name } = bench(t, lab);
    const page = await tab();
    await page.ask('held', name);
    await page.wait('held', 'granted');
    const [{ clientId: before }] = (await page.query(name)).held;
    await page.page.reload();
    await page.ask('held', name);
    await page.wait('held', 'granted', WITHIN_MS);
    const [{ clientId: after }] = (await page.query(name)).held;
    assert.notEqual(after, before);
  });

  /** Takes the process of the page down, as a crash would, and leaves the dead tab open. */
  async function crash(page) {
    const session = await page.context().newCDPSession(page);
    const crashed = new Promise((resolve) => page.once('crash', resolve));
    session.send('Page.crash').catch(() => {});
    await crashed;
  }
});
