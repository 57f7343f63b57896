// Faults that shipping engines have and that must not be ours. `FAULTY` lists those of Chromium's own locks.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe } from 'node:test';
import { openFrame, openWorker } from './support/agents.mjs';
import { bench, native, startLab, test } from './support/lab.mjs';

const FAULTY = new Set([
  'engine fault: WL-089 aborting a queued exclusive request wakes the shared ones behind it',
  'engine fault: WL-042 WL-089 killing a queued exclusive request wakes the shared ones behind it',
]);

describe('faults of shipping engines', () => {
  let lab;
  before(async () => {
    lab = await startLab();
  });
  after(() => lab?.end());

  function fault(title, body) {
    test(`engine fault: ${title}`, async (t) => {
      const run = body(bench(t, lab), t);
      if (native && FAULTY.has(`engine fault: ${title}`))
        await assert.rejects(run, 'the engine is expected to fail here: take it off the list');
      else await run;
    });
  }

  fault('WL-089 aborting a queued exclusive request wakes the shared ones behind it', async ({ tab, name }) => {
    const [reader, writer, second] = [await tab(), await tab(), await tab()];
    await reader.ask('r', name, { mode: 'shared' });
    await reader.wait('r', 'granted');
    await writer.ask('w', name, { abortable: true });
    await writer.query(name);
    await second.ask('r', name, { mode: 'shared' });
    assert.deepEqual(await second.modes(name), { held: ['shared'], pending: ['exclusive', 'shared'] });
    await writer.abort('w');
    await second.wait('r', 'granted', 1000);
  });

  fault('WL-042 WL-089 killing a queued exclusive request wakes the shared ones behind it', async ({ tab, name }) => {
    const [reader, writer, second] = [await tab(), await tab(), await tab()];
    const worker = await openWorker(writer.page, lab.env);
    for (const [round, kill] of [worker.terminate, writer.close].entries()) {
      const resource = `${name}:${round}`;
      const victim = round === 0 ? worker : writer;
      await reader.ask(resource, resource, { mode: 'shared' });
      await reader.wait(resource, 'granted');
      await victim.ask('w', resource);
      await victim.query(resource);
      await second.ask(resource, resource, { mode: 'shared' });
      assert.deepEqual(await second.modes(resource), { held: ['shared'], pending: ['exclusive', 'shared'] });
      await kill();
      await second.wait(resource, 'granted', 1000);
    }
  });

  fault('WL-038 ifAvailable behind a queued exclusive request gets null', async ({ tab, name }) => {
    const [reader, writer, third] = [await tab(), await tab(), await tab()];
    await reader.ask('r', name, { mode: 'shared' });
    await reader.wait('r', 'granted');
    await writer.ask('w', name);
    await writer.query(name);
    for (const agent of [reader, writer, third])
      assert.equal(await agent.visit(name, { mode: 'shared', ifAvailable: true }), false);
  });

  fault('WL-053 a synchronous throw leaks no lock', async ({ tab, name }) => {
    const [a, b] = [await tab(), await tab()];
    for (let round = 0; round < 10; round++) {
      assert.equal(await a.throwInside(name), 'inside');
      await b.ask('b', name);
      await b.wait('b', 'granted', 1000);
      await b.release('b');
      await b.wait('b', 'resolved');
    }
    // Asked by the one whose release is on its way: another's question may overtake it.
    assert.deepEqual(await b.modes(name), { held: [], pending: [] });
  });

  fault('WL-059 WL-083 steal works across agents, and the victim is told', async ({ tab, name }) => {
    const [victim, waiter, thief] = [await tab(), await tab(), await tab()];
    const worker = await openWorker(victim.page, lab.env);
    for (const agent of [victim, worker]) {
      await agent.ask('v', name, { mode: 'shared' });
      await agent.wait('v', 'granted');
    }
    await waiter.ask('w', name);
    await waiter.query(name);
    await thief.ask('t', name, { steal: true });
    await thief.wait('t', 'granted');
    for (const agent of [victim, worker]) assert.match(await agent.wait('v', 'rejected'), /^rejected: AbortError/);
    assert.deepEqual(await thief.modes(name), { held: ['exclusive'], pending: ['exclusive'] });
    await victim.release('v');
    await victim.query(name);
    assert.deepEqual(await waiter.events('w'), [], 'the end of a victim frees nothing');
    await thief.release('t');
    await waiter.wait('w', 'granted');
  });

  fault('WL-006 WL-040 a dead holder wakes its waiters without any other traffic', async ({ tab, name }) => {
    const [holder, waiter] = [await tab(), await tab()];
    const worker = await openWorker(holder.page, lab.env);
    await worker.ask('h', name);
    await worker.wait('h', 'granted');
    await waiter.ask('w', name);
    await waiter.query(name);
    await worker.terminate();
    await waiter.wait('w', 'granted', 1000);
  });

  fault('WL-077 query shows the locks and requests of all agents', async ({ tab, name }) => {
    const page = await tab();
    const agents = [page, await tab(), await openFrame(page.page, lab.env), await openWorker(page.page, lab.env)];
    for (const agent of agents) {
      await agent.ask('all', name);
      await agent.query(name);
    }
    for (const agent of agents) {
      const { held, pending } = await agent.query(name);
      assert.equal(held.length, 1);
      assert.equal(pending.length, agents.length - 1);
      assert.equal(new Set([...held, ...pending].map((entry) => entry.clientId)).size, agents.length);
    }
  });

  fault('WL-089 WL-099 an aborted request leaves pending at once, for every agent', async ({ tab, name }) => {
    const [holder, waiter] = [await tab(), await tab()];
    await holder.ask('h', name);
    await holder.wait('h', 'granted');
    await waiter.ask('w', name, { abortable: true });
    assert.equal((await waiter.query(name)).pending.length, 1);
    await waiter.abort('w');
    assert.equal((await waiter.query(name)).pending.length, 0, 'for the agent itself');
    assert.equal((await holder.query(name)).pending.length, 0, 'for the other one');
  });

  fault('WL-035 WL-092 no request overtakes an earlier one of another agent', async ({ tab, name }) => {
    const agents = [await tab(), await tab(), await tab()];
    const gate = await tab();
    await gate.ask('gate', name);
    await gate.wait('gate', 'granted');
    const order = [];
    for (let round = 0; round < 12; round++) {
      const agent = agents[(round * 5) % 3];
      await agent.ask(`r${round}`, name, { mode: round % 4 === 1 ? 'shared' : 'exclusive' });
      await agent.query(name);
      order.push({ agent, label: `r${round}` });
    }
    await gate.release('gate');
    for (const [index, { agent, label }] of order.entries()) {
      await agent.wait(label, 'granted');
      for (const later of order.slice(index + 1))
        assert.deepEqual(await later.agent.events(later.label), [], `${later.label} waits behind ${label}`);
      await agent.release(label);
    }
  });

  if (!native) {
    fault('a hundred thousand unrelated names cost nothing', async ({ process, name }, t) => {
      const agents = [await process(), await process()];
      const worker = await process();
      await worker.time_pairs(name, 300);
      const alone = await best(worker, name);
      for (const [index, agent] of agents.entries()) await agent.crowd(`${name}:${index}:`, 50_000, index === 1);
      const beside = await best(worker, name);
      t.diagnostic(
        `300 pairs: ${alone.toFixed(0)} ms alone, ${beside.toFixed(0)} ms beside 100,000 held and 50,000 queued names`,
      );
      assert.ok(
        beside < alone * 4 + 50,
        `300 pairs took ${alone} ms alone and ${beside} ms beside 100,000 other names`,
      );
    });

    const best = async (agent, name) => Math.min(...(await inTurn(5, () => agent.time_pairs(name, 300))));
    const inTurn = async (times, run) => {
      const results = [];
      for (let i = 0; i < times; i++) results.push(await run());
      return results;
    };

    fault(
      'unique names leave no memory behind, neither in the client nor in the server',
      async ({ process, name }, t) => {
        const node = await process();
        const measure = async () => ({ client: await node.heap(), server: residentBytes(lab.server.pid) });
        await node.unique(`${name}:warm:`, 20_000);
        const before = await measure();
        await node.unique(`${name}:more:`, 240_000);
        const after = await measure();
        t.diagnostic(
          `240,000 names: client heap ${after.client - before.client} B, server memory ${after.server - before.server} B`,
        );
        assert.ok(after.client - before.client < 1_000_000, 'the heap of the client');
        // Less than 34 bytes a name; the allocator takes 4 MiB at once, for every use.
        assert.ok(after.server - before.server < 8_000_000, 'the memory of the server');
      },
    );
  }
});

/** What the process has in memory, by the kernel's account (pages of 4096 bytes). */
function residentBytes(pid) {
  return Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * 4096;
}
