// Several contexts on one lock table: who shares it, who does not, and what each sees of the others.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { openFrame, openTab, openWorker } from './support/agents.mjs';
import { until } from './support/cleanup.mjs';
import { bench, native, startLab, test } from './support/lab.mjs';

describe('several contexts', () => {
  let lab;
  before(async () => {
    lab = await startLab();
  });
  after(() => lab?.end());

  test('WL-004 WL-006 WL-017 two tabs take turns', async (t) => {
    const { tab, name } = bench(t, lab);
    const [a, b] = [await tab(), await tab()];
    await a.ask('a', name);
    await a.wait('a', 'granted');
    await b.ask('b', name);
    assert.deepEqual(await b.modes(name), { held: ['exclusive'], pending: ['exclusive'] });
    for (let round = 0; round < 5; round++) {
      await a.release('a');
      await b.wait('b', 'granted');
      await a.ask('a', name);
      await until(async () => (await a.modes(name)).pending.length === 1, 'the first tab waits');
      await b.release('b');
      await a.wait('a', 'granted');
      await b.ask('b', name);
      await until(async () => (await b.modes(name)).pending.length === 1, 'the second tab waits');
    }
  });

  for (const kind of ['classic', 'module', 'shared', 'service']) {
    test(`WL-004 WL-017 a tab and a ${kind} worker take turns`, async (t) => {
      const { tab, name } = bench(t, lab);
      const page = await tab();
      await takeTurns(page, await openWorker(page.page, lab.env, kind), name);
    });
  }

  test('WL-004 WL-017 a tab, its iframe and its popup take turns', async (t) => {
    const { tab, name, context } = bench(t, lab);
    const page = await tab();
    await takeTurns(page, await openFrame(page.page, lab.env), name);
    const popup = await openTab(await context(), lab.env);
    await takeTurns(page, popup, name);
  });

  if (!native) {
    test('WL-004 a tab, a worker and a Node process take turns', async (t) => {
      const { tab, name, process } = bench(t, lab);
      const page = await tab();
      const worker = await openWorker(page.page, lab.env);
      const node = await process();
      await takeTurns(page, node, name);
      await takeTurns(node, worker, name);
    });
  }

  async function takeTurns(a, b, name) {
    await a.ask('turn', name);
    await a.wait('turn', 'granted');
    await b.ask('turn', name);
    assert.deepEqual(await b.modes(name), { held: ['exclusive'], pending: ['exclusive'] });
    assert.equal(await b.visit(name, { ifAvailable: true }), false, 'ifAvailable');
    await a.release('turn', 'first');
    await b.wait('turn', 'granted');
    assert.equal(await a.wait('turn', 'resolved'), 'resolved: first');
    await b.release('turn', 'second');
    assert.equal(await b.wait('turn', 'resolved'), 'resolved: second');
    assert.equal(await a.visit(name), true);
  }

  test('WL-073 WL-077 WL-110 every context sees all entries alike, each with its own client id', async (t) => {
    const { tab, name, process } = bench(t, lab);
    const first = await tab();
    const second = await tab();
    const agents = [
      first,
      second,
      await openFrame(first.page, lab.env),
      await openWorker(first.page, lab.env),
      await openWorker(second.page, lab.env, 'shared'),
    ];
    if (!native) agents.push(await process());
    for (const agent of agents) {
      await agent.ask('shared', name, { mode: 'shared' });
      await agent.wait('shared', 'granted');
    }
    for (const agent of agents) {
      await agent.ask('waiting', name);
      await agent.query(name);
    }
    const views = await Promise.all(agents.map((agent) => agent.query(name)));
    const ids = views[0].pending.map((entry) => entry.clientId);
    assert.equal(new Set(ids).size, agents.length, 'one client id per context');
    assert.deepEqual(
      new Set(views[0].held.map((entry) => entry.clientId)),
      new Set(ids),
      'holders and waiters are the same contexts',
    );
    for (const view of views) {
      assert.deepEqual(view.pending, views[0].pending, 'pending, in the order of the requests');
      assert.deepEqual(sorted(view.held), sorted(views[0].held), 'held');
    }
  });

  const sorted = (entries) => entries.toSorted((a, b) => (a.clientId < b.clientId ? -1 : 1));

  test('WL-054 WL-008 readers of several contexts share, a writer waits for all of them', async (t) => {
    const { tab, name } = bench(t, lab);
    const [a, b, c] = [await tab(), await tab(), await tab()];
    for (const reader of [a, b]) {
      await reader.ask('read', name, { mode: 'shared' });
      await reader.wait('read', 'granted');
    }
    await c.ask('write', name);
    assert.deepEqual(await c.modes(name), { held: ['shared', 'shared'], pending: ['exclusive'] });
    await a.release('read');
    await a.wait('read', 'resolved');
    assert.deepEqual(await c.events('write'), []);
    await b.release('read');
    await c.wait('write', 'granted');
  });

  test('WL-045 WL-063 WL-075 a detached iframe gives InvalidStateError, as a rejection', async (t) => {
    const { tab } = bench(t, lab);
    const page = await tab();
    const frame = await openFrame(page.page, lab.env);
    await frame.visit('warm up');
    const outcome = await page.page.evaluate(async (element) => {
      const { locks } = element.contentWindow.navigator;
      element.remove();
      const late = new Promise((resolve) => setTimeout(resolve, 2000, 'nothing for two seconds'));
      const name = (promise) =>
        Promise.race([
          late,
          promise.then(
            () => 'granted',
            (error) => error.name,
          ),
        ]);
      const signal = AbortSignal.abort('reason');
      return {
        request: await name(locks.request('x', () => {})),
        reserved: await name(locks.request('-x', { steal: true, ifAvailable: true, signal }, () => {})),
        conversion: await name(locks.request('x', { mode: 'none' }, () => {})),
        query: await name(locks.query()),
      };
    }, frame.element);
    assert.deepEqual(outcome, {
      request: 'InvalidStateError',
      reserved: 'InvalidStateError',
      conversion: 'TypeError',
      query: 'InvalidStateError',
    });
  });

  test('WL-018 WL-064 WL-075 WL-108 an opaque origin gives SecurityError, before every later check', async (t) => {
    const { tab } = bench(t, lab);
    const page = await tab();
    const { frame } = await openFrame(page.page, lab.env, { sandbox: 'allow-scripts' });
    const outcome = await frame.evaluate(async () => {
      const name = (promise) =>
        promise.then(
          () => 'granted',
          (error) => `${error.name} ${error instanceof DOMException}`,
        );
      const signal = AbortSignal.abort('reason');
      let called = false;
      return {
        origin: self.origin,
        request: await name(navigator.locks.request('x', () => (called = true))),
        reserved: await name(navigator.locks.request('-x', { steal: true, ifAvailable: true, signal }, () => {})),
        conversion: await name(navigator.locks.request('x', { mode: 'none' }, () => {})),
        query: await name(navigator.locks.query()),
        called,
      };
    });
    assert.deepEqual(outcome, {
      origin: 'null',
      request: 'SecurityError true',
      reserved: 'SecurityError true',
      conversion: 'TypeError false',
      query: 'SecurityError true',
      called: false,
    });
  });

  if (!native) {
    // Chromium has storage buckets, but no locks in them.
    test('WL-016 a storage bucket has a lock manager of its own', async (t) => {
      const { tab, name } = bench(t, lab);
      const page = await tab();
      const outcome = await page.page.evaluate(async (resource) => {
        const open = (bucket) => navigator.storageBuckets.open(bucket);
        const [one, again, two] = [await open('one'), await open('one'), await open('two')];
        const free = (locks) => locks.request(resource, { ifAvailable: true }, (lock) => lock !== null);
        return navigator.locks.request(resource, () =>
          one.locks.request(resource, async () => ({
            same: new Set([one.locks, one.locks]).size === 1,
            default: await free(navigator.locks),
            one: await free(one.locks),
            again: await free(again.locks),
            two: await free(two.locks),
            seen: (await two.locks.query()).held.length,
            kind: Object.prototype.toString.call(one.locks),
          })),
        );
      }, name);
      assert.deepEqual(outcome, {
        same: true,
        default: false,
        one: false,
        again: false,
        two: true,
        seen: 0,
        kind: '[object LockManager]',
      });
    });

    test('WL-016 WL-023 WL-077 two buckets of the server neither contend nor see each other', async (t) => {
      const { process, tab, name } = bench(t, lab);
      const [own, other] = [await process(), await process({ bucket: 'other' })];
      const page = await tab({ options: { bucket: 'other' } });
      await own.ask('a', name);
      await own.wait('a', 'granted');
      await other.ask('b', name);
      await other.wait('b', 'granted');
      assert.equal(await page.visit(name, { ifAvailable: true }), false, 'the tab is in the other bucket');
      assert.equal((await own.query(name)).held.length, 1, 'each bucket lists its own lock only');
      await other.release('b');
      assert.equal(await page.visit(name), true);
    });

    test('WL-073 a label given as clientId shows in the snapshots', async (t) => {
      const { process, name } = bench(t, lab);
      const node = await process({ clientId: 'back-end job' });
      await node.ask('a', name);
      await node.wait('a', 'granted');
      assert.deepEqual((await node.query(name)).held, [{ clientId: 'back-end job', mode: 'exclusive', name }]);
    });
  }
});
