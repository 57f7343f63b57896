// The server is killed and started again on the same port: every client hears of its loss, and nothing hangs.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { openWorker } from '../support/agents.mjs';
import { until } from '../support/cleanup.mjs';
import { bench, native, startLab, test } from '../support/lab.mjs';
import { startServer, stopProcess } from '../support/server.mjs';

const BACK_MS = 15_000;

if (!native) {
  describe('a server that is killed and comes back', () => {
    let lab;
    before(async () => {
      lab = await startLab();
    });
    after(() => lab?.end());

    async function restart() {
      const { port } = lab.server;
      await lab.server.kill();
      lab.server = await startServer({ port });
    }

    const epoch = async () => (await (await fetch(`${lab.server.url}/healthz`)).json()).epoch;

    test('WL-114 tab, worker and process are told that their locks are lost, and the new table is empty', async (t) => {
      const { tab, process, name } = bench(t, lab);
      const page = await tab();
      const agents = [page, await openWorker(page.page, lab.env), await process()];
      for (const agent of agents) {
        await agent.ask('held', name, { mode: 'shared' });
        await agent.wait('held', 'granted');
      }
      const before = await epoch();
      await restart();
      assert.notEqual(await epoch(), before, 'a new epoch');
      for (const agent of agents) assert.match(await agent.wait('held', 'rejected', BACK_MS), /^rejected: AbortError/);
      for (const agent of agents) assert.deepEqual(await agent.modes(name), { held: [], pending: [] });
      assert.deepEqual(await agents[2].states(), ['connecting', 'open', 'lost', 'open']);
    });

    test('pending requests are asked anew in their order', async (t) => {
      const { process, name } = bench(t, lab);
      const [holder, waiter] = [await process(), await process()];
      await holder.ask('held', name);
      await holder.wait('held', 'granted');
      for (const label of ['1', '2', '3']) await waiter.ask(label, name);
      await waiter.ask('reader', name, { mode: 'shared' });
      assert.equal((await waiter.query(name)).pending.length, 4);
      await restart();
      await waiter.wait('1', 'granted', BACK_MS);
      assert.deepEqual(await waiter.modes(name), {
        held: ['exclusive'],
        pending: ['exclusive', 'exclusive', 'shared'],
      });
      for (const [label, next] of [
        ['1', '2'],
        ['2', '3'],
        ['3', 'reader'],
      ]) {
        assert.deepEqual(await waiter.events(next), [], `${next} waits behind ${label}`);
        await waiter.release(label);
        await waiter.wait(next, 'granted');
      }
      assert.match(await holder.wait('held', 'rejected', BACK_MS), /^rejected: AbortError/);
    });

    test('a steal in flight rejects with outcome unknown, all else in flight is asked again', async (t) => {
      const { process: start, name } = bench(t, lab);
      const client = await start();
      await client.query(name);
      await stopProcess(lab.server.pid);
      await client.ask('steal', name, { steal: true });
      await client.ask('plain', `${name}:plain`);
      await client.ask('try', `${name}:try`, { ifAvailable: true });
      const query = client.query(name);
      query.catch(() => {});
      await restart();
      assert.match(await client.wait('steal', 'rejected', BACK_MS), /outcome unknown/);
      await client.wait('plain', 'granted', BACK_MS);
      await client.wait('try', 'granted', BACK_MS);
      assert.deepEqual(await query, { held: [], pending: [] });
      assert.equal(await client.visit(name), true, 'the stolen name can be taken');
    });

    test('WL-057 an abort while the server is away rejects at once and is not asked again', async (t) => {
      const { process, name } = bench(t, lab);
      const [holder, waiter] = [await process(), await process()];
      await holder.ask('held', name);
      await holder.wait('held', 'granted');
      await waiter.ask('waiting', name, { abortable: true });
      await waiter.ask('behind', name);
      await waiter.query(name);
      const { port } = lab.server;
      await lab.server.kill();
      await until(async () => (await waiter.states()).at(-1) === 'lost', 'the client knows of the loss');
      await waiter.abort('waiting', 'mine');
      assert.equal(await waiter.wait('waiting', 'rejected'), 'rejected: mine');
      lab.server = await startServer({ port });
      await waiter.wait('behind', 'granted', BACK_MS);
      assert.deepEqual(await waiter.modes(name), { held: ['exclusive'], pending: [] });
    });

    test('a lock whose callback ends while the server is away resolves, and is not held afterwards', async (t) => {
      const { process, name } = bench(t, lab);
      const client = await process();
      await client.ask('held', name);
      await client.wait('held', 'granted');
      const { port } = lab.server;
      await lab.server.kill();
      await until(async () => (await client.states()).at(-1) === 'lost', 'the client knows of the loss');
      await client.release('held', 'done');
      assert.equal(await client.wait('held', 'resolved'), 'resolved: done');
      lab.server = await startServer({ port });
      assert.deepEqual(await client.modes(name), { held: [], pending: [] });
    });

    test('requests made while the server is away are granted when it is back', async (t) => {
      const { tab, name } = bench(t, lab);
      const page = await tab();
      await page.query();
      const { port } = lab.server;
      await lab.server.kill();
      await page.ask('1', name);
      await page.ask('2', name);
      lab.server = await startServer({ port });
      await page.wait('1', 'granted', BACK_MS);
      await page.release('1');
      await page.wait('2', 'granted');
    });

    test('WL-114 SIGTERM lets the last holder finish, then ends the server, and the next one starts with an empty table', async (t) => {
      const { process, name } = bench(t, lab);
      const client = await process();
      await client.ask('held', name);
      await client.wait('held', 'granted');
      const { port } = lab.server;
      const stopped = lab.server.stop();
      await client.release('held', 'done');
      assert.equal(await client.wait('held', 'resolved'), 'resolved: done');
      assert.deepEqual(await stopped, { code: 0, signal: null });
      lab.server = await startServer({ port });
      assert.deepEqual(await client.modes(name), { held: [], pending: [] });
      assert.equal(await client.visit(name), true);
    });
  });
}
