// Clients that stop without a word: the lease decides, neither earlier nor much later.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { setTimeout as elapse } from 'node:timers/promises';
import { openTab } from '../support/agents.mjs';
import { launchMortalChromium } from '../support/chromium.mjs';
import { bench, native, startLab, test } from '../support/lab.mjs';
import { stopProcess } from '../support/server.mjs';

const LEASE_MS = 2000;
const HEARTBEAT_MS = LEASE_MS / 10;
// The server looks at its clock a few times per second, and this machine may be busy.
const LATEST_MS = LEASE_MS + 1000;

if (!native) {
  describe('clients that stop without a word', () => {
    let lab;
    before(async () => {
      lab = await startLab({ lease: `${LEASE_MS}ms`, browser: false });
    });
    after(() => lab?.end());

    /** A holder and a waiter of one name, in processes of their own. */
    async function pair(t, options) {
      const { process, name } = bench(t, lab);
      const [holder, waiter] = [await process(), await process()];
      await holder.ask('held', name, options);
      await holder.wait('held', 'granted');
      await waiter.ask('waiting', name);
      assert.deepEqual(await waiter.modes(name), { held: [options?.mode ?? 'exclusive'], pending: ['exclusive'] });
      return { holder, waiter, name };
    }

    /** Asserts that the waiter is granted after the lease, counted from `start`, and not before. */
    async function grantedByLease(t, waiter, start) {
      await waiter.wait('waiting', 'granted', LATEST_MS + 1000);
      const took = (await waiter.time('waiting', 'granted')) - start;
      t.diagnostic(`granted ${took} ms after the end`);
      // The lease runs from the last answer to a ping, which is up to a heartbeat older than the end.
      assert.ok(took >= LEASE_MS - HEARTBEAT_MS - 50, `granted after ${took} ms, before the lease had ended`);
      assert.ok(took <= LATEST_MS, `granted after ${took} ms, more than a second after the lease`);
    }

    test('WL-040 a killed process keeps its lock until its lease ends, and at most a second longer', async (t) => {
      const { holder, waiter } = await pair(t);
      const start = Date.now();
      await holder.kill('SIGKILL');
      await grantedByLease(t, waiter, start);
    });

    test('WL-040 a process that exits without closing its client frees its lock at once', async (t) => {
      const { holder, waiter } = await pair(t);
      holder.exit().catch(() => {});
      await waiter.wait('waiting', 'granted', 1000);
    });

    test('WL-039 the tab of a killed browser keeps its lock until its lease ends', async (t) => {
      const { process, name, keep } = bench(t, lab);
      const { browser, kill } = await launchMortalChromium();
      keep(browser, kill);
      const tab = await openTab(await browser.newContext(), lab.env);
      const waiter = await process();
      await tab.ask('held', name);
      await tab.wait('held', 'granted');
      await waiter.ask('waiting', name);
      assert.deepEqual(await waiter.modes(name), { held: ['exclusive'], pending: ['exclusive'] });
      const start = Date.now();
      await kill();
      await grantedByLease(t, waiter, start);
    });

    test('WL-040 a client that is closed frees its lock at once', async (t) => {
      const { holder, waiter } = await pair(t);
      await holder.close();
      await waiter.wait('waiting', 'granted', 1000);
      assert.match(await holder.wait('held', 'rejected'), /^rejected: AbortError/);
    });

    test('WL-042 WL-089 a killed process that waits for an exclusive lock stops blocking readers when its lease ends', async (t) => {
      const { holder, waiter, name } = await pair(t, { mode: 'shared' });
      await holder.ask('behind', name, { mode: 'shared' });
      assert.deepEqual(await holder.modes(name), { held: ['shared'], pending: ['exclusive', 'shared'] });
      await waiter.kill('SIGKILL');
      await holder.wait('behind', 'granted', LATEST_MS);
      assert.deepEqual(await holder.modes(name), { held: ['shared', 'shared'], pending: [] });
    });

    test('a stopped process loses its lock by the lease, and is told before anything else when it goes on', async (t) => {
      const { holder, waiter, name } = await pair(t);
      const start = Date.now();
      await stopProcess(holder.pid);
      try {
        await grantedByLease(t, waiter, start);
      } finally {
        process.kill(holder.pid, 'SIGCONT');
      }
      assert.match(await holder.wait('held', 'rejected'), /^rejected: AbortError/);
      assert.deepEqual(await waiter.modes(name), { held: ['exclusive'], pending: [] });
      await waiter.release('waiting');
      assert.equal(await holder.visit(name), true, 'the client works on, in a new session');
    });

    test('a process that is stopped for less than its lease keeps its lock', async (t) => {
      const { holder, waiter, name } = await pair(t);
      await stopProcess(holder.pid);
      await elapse(LEASE_MS / 3);
      process.kill(holder.pid, 'SIGCONT');
      await elapse(LEASE_MS + 500);
      assert.deepEqual(await waiter.modes(name), { held: ['exclusive'], pending: ['exclusive'] });
      assert.deepEqual(await waiter.events('waiting'), []);
      assert.deepEqual(await holder.events('held'), ['granted']);
      await holder.release('held');
      await waiter.wait('waiting', 'granted');
    });
  });
}
