// The server is killed and started again on the same database: clients keep their locks, and no other
// client gets them.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe } from 'node:test';
import { openWorker } from '../support/agents.mjs';
import { until } from '../support/cleanup.mjs';
import { bench, native, startLab, test } from '../support/lab.mjs';
import { startServer, stopProcess } from '../support/server.mjs';

const LEASE_MS = 3000;
const lease = `${LEASE_MS}ms`;
const BACK_MS = 15_000;
/** Clients count a lease from when their answer left, less 10 %. */
const DEADLINE_MS = LEASE_MS * 0.9;

if (!native) {
  describe('a server with a database that is killed and comes back', () => {
    let lab;
    let folder;
    let args;
    before(async () => {
      folder = await mkdtemp(join(tmpdir(), 'lockhouse-'));
      args = ['--store', `sqlite:${join(folder, 'locks.db')}`, '--drain', '200ms'];
      lab = await startLab({ lease, serverArgs: () => args });
    });
    after(async () => {
      await lab?.end();
      await rm(folder, { recursive: true, force: true });
    });

    /** Starts the server again where it was; gives the instant before. */
    async function restart(end = () => lab.server.kill()) {
      const { port } = lab.server;
      await end();
      const startedAt = Date.now();
      lab.server = await startServer({ port, lease, args });
      return startedAt;
    }

    /** Resolves when the bucket has recovered: a name that no client held is granted, and not before. */
    async function recovered(process, name, startedAt) {
      await process.ask('free', `${name}:free`);
      await process.wait('free', 'granted', BACK_MS);
      const tookMs = (await process.time('free', 'granted')) - startedAt;
      assert.ok(
        tookMs >= LEASE_MS,
        `a free name was granted ${tookMs} ms after the start, before the recovery was over`,
      );
      await process.release('free');
    }

    test('WL-114 tab, worker and process keep their locks and tokens, and nobody else is granted them', async (t) => {
      const { tab, process, name } = bench(t, lab);
      const page = await tab();
      const waiter = await process();
      const holders = { tab: page, worker: await openWorker(page.page, lab.env), process: await process() };
      const tokens = {};
      for (const [kind, holder] of Object.entries(holders)) {
        await holder.ask('own', `${name}:${kind}`);
        await holder.ask('common', name, { mode: 'shared' });
        await holder.wait('own', 'granted');
        await holder.wait('common', 'granted');
        tokens[kind] = [await holder.token('own'), await holder.token('common')];
        await waiter.ask(kind, `${name}:${kind}`);
      }
      await waiter.ask('common', name);
      assert.equal((await waiter.query()).pending.length, 4);
      const startedAt = await restart();
      const newcomer = await process();
      await newcomer.ask('try', `${name}:tab`, { ifAvailable: true });
      await recovered(newcomer, name, startedAt);
      await newcomer.wait('try', 'unavailable');
      for (const [kind, holder] of Object.entries(holders)) {
        assert.deepEqual([await holder.token('own'), await holder.token('common')], tokens[kind], kind);
        assert.deepEqual([await holder.events('own'), await holder.events('common')], [['granted'], ['granted']], kind);
        assert.deepEqual(await waiter.events(kind), []);
      }
      assert.deepEqual(await waiter.modes(name), { held: ['shared', 'shared', 'shared'], pending: ['exclusive'] });
      for (const [kind, holder] of Object.entries(holders)) {
        await holder.release('own', 'done');
        await holder.release('common', 'done');
        assert.equal(await holder.wait('own', 'resolved'), 'resolved: done');
        await waiter.wait(kind, 'granted');
        const [next, last] = [await waiter.token(kind), Math.max(...Object.values(tokens).flat())];
        assert.ok(next > last, `token ${next} after ${last}`);
      }
      await waiter.wait('common', 'granted');
    });

    test('a lock is kept over several restarts, one of them before the last has recovered', async (t) => {
      const { process, name } = bench(t, lab);
      const holder = await process();
      await holder.ask('held', name);
      await holder.wait('held', 'granted');
      const token = await holder.token('held');
      for (let round = 0; round < 2; round++) {
        await restart();
        await until(async () => (await holder.modes(name)).held.length === 1, 'the lock is held again', BACK_MS);
      }
      const newcomer = await process();
      await recovered(newcomer, name, await restart());
      assert.deepEqual([await holder.token('held'), await holder.events('held')], [token, ['granted']]);
      assert.deepEqual(await newcomer.modes(name), { held: ['exclusive'], pending: [] });
    });

    test('a process that is stopped past its deadline does not reclaim, and hears of its loss', async (t) => {
      const { process, name } = bench(t, lab);
      const [holder, waiter] = [await process(), await process()];
      await holder.ask('held', name);
      await holder.wait('held', 'granted');
      await waiter.ask('waiting', name);
      assert.deepEqual(await waiter.modes(name), { held: ['exclusive'], pending: ['exclusive'] });
      const stoppedAt = Date.now();
      await stopProcess(holder.pid);
      const startedAt = await restart();
      await waiter.wait('waiting', 'granted', BACK_MS);
      const grantedAt = await waiter.time('waiting', 'granted');
      assert.ok(grantedAt >= startedAt + LEASE_MS, 'granted before the recovery was over');
      assert.ok(grantedAt >= stoppedAt + DEADLINE_MS, 'granted before the deadline of the holder');
      globalThis.process.kill(holder.pid, 'SIGCONT');
      assert.match(await holder.wait('held', 'rejected'), /^rejected: AbortError .*expired/);
      await assert.rejects(holder.token('held'), /expired/);
      assert.deepEqual(await holder.modes(name), { held: ['exclusive'], pending: [] });
      assert.deepEqual(await waiter.events('waiting'), ['granted']);
    });

    test('pending requests keep their order behind the lock that is reclaimed', async (t) => {
      const { process, name } = bench(t, lab);
      const [holder, waiter] = [await process(), await process()];
      await waiter.ask('elsewhere', `${name}:elsewhere`);
      await waiter.wait('elsewhere', 'granted');
      await holder.ask('held', name);
      await holder.wait('held', 'granted');
      for (const label of ['1', '2']) await waiter.ask(label, name);
      assert.equal((await waiter.query(name)).pending.length, 2);
      await restart();
      await holder.release('held', 'done');
      assert.equal(await holder.wait('held', 'resolved'), 'resolved: done');
      await waiter.wait('1', 'granted', BACK_MS);
      assert.deepEqual(await waiter.events('2'), []);
      await waiter.release('1');
      await waiter.wait('2', 'granted');
      assert.deepEqual(await waiter.events('elsewhere'), ['granted']);
    });

    test('a lock whose callback ends while the server is away is not held afterwards', async (t) => {
      const { process, name } = bench(t, lab);
      const [holder, newcomer] = [await process(), await process()];
      await holder.ask('held', name);
      await holder.wait('held', 'granted');
      const startedAt = await restart(async () => {
        await lab.server.kill();
        await until(async () => (await holder.states()).at(-1) === 'lost', 'the client knows of the loss');
        await holder.release('held', 'done');
        assert.equal(await holder.wait('held', 'resolved'), 'resolved: done');
      });
      await recovered(newcomer, name, startedAt);
      assert.deepEqual(await newcomer.modes(name), { held: [], pending: [] });
      assert.equal(await newcomer.visit(name, { ifAvailable: true }), true);
    });

    test('a tab that is closed while the server is away does not come back, and its lock is free after the recovery', async (t) => {
      const { tab, process, name } = bench(t, lab);
      const [page, waiter] = [await tab(), await process()];
      await page.ask('held', name);
      await page.wait('held', 'granted');
      await waiter.ask('waiting', name);
      assert.deepEqual(await waiter.modes(name), { held: ['exclusive'], pending: ['exclusive'] });
      const startedAt = await restart(async () => {
        await lab.server.kill();
        await page.close();
      });
      await waiter.wait('waiting', 'granted', BACK_MS);
      assert.ok((await waiter.time('waiting', 'granted')) >= startedAt + LEASE_MS);
    });

    test('after SIGTERM only what was held waits: its holder reclaims it, and all else is granted at once', async (t) => {
      const { process, name } = bench(t, lab);
      const holder = await process();
      await holder.ask('held', name);
      await holder.wait('held', 'granted');
      const token = await holder.token('held');
      const newcomer = await process();
      const startedAt = await restart(() => lab.server.stop());
      await newcomer.ask('free', `${name}:free`);
      await newcomer.wait('free', 'granted', BACK_MS);
      const tookMs = (await newcomer.time('free', 'granted')) - startedAt;
      assert.ok(tookMs < LEASE_MS, `a free name was granted ${tookMs} ms after the start, as if it had recovered`);
      await newcomer.release('free');
      assert.equal(await newcomer.visit(name, { ifAvailable: true }), false);
      assert.deepEqual([await holder.token('held'), await holder.events('held')], [token, ['granted']]);
      assert.deepEqual(await newcomer.modes(name), { held: ['exclusive'], pending: [] });
    });
  });
}
