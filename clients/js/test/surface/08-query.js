// query(): the shape and the consistency of the snapshot (3.2.2, 4.5).
(() => {
  'use strict';
  const { test } = surface;

  test('WL-049 WL-072 WL-113 the snapshot is plain data with exactly the keys of the specification, in their order', async (t) => {
    const name = t.name();
    await t.held(name);
    t.hold(name, { mode: 'shared' });
    const snapshot = await t.locks.query();
    t.same(Reflect.ownKeys(snapshot), ['held', 'pending'], 'keys of the snapshot');
    t.equal(Object.getPrototypeOf(snapshot), Object.prototype, 'prototype');
    for (const list of [snapshot.held, snapshot.pending]) {
      t.ok(Array.isArray(list) && Object.getPrototypeOf(list) === Array.prototype, 'an array of this realm');
      for (const entry of list) {
        t.same(Reflect.ownKeys(entry), ['clientId', 'mode', 'name'], 'keys of an entry');
        t.equal(Object.getPrototypeOf(entry), Object.prototype, 'prototype of an entry');
        for (const descriptor of Object.values(Object.getOwnPropertyDescriptors(entry))) {
          t.same(
            [typeof descriptor.value, descriptor.writable, descriptor.enumerable, descriptor.configurable],
            ['string', true, true, true],
            'member',
          );
        }
      }
    }
    t.same(JSON.parse(JSON.stringify(snapshot)), snapshot, 'round trip through JSON');
  });

  test('WL-072 each query gives a snapshot of its own, free to be changed', async (t) => {
    const name = t.name();
    await t.held(name);
    const first = await t.locks.query();
    first.held.length = 0;
    first.pending = null;
    t.ok((await t.entries(name)).held.length === 1, 'the next query is untouched');
  });

  test('WL-076 a query sees every request made before it, held or pending', async (t) => {
    const name = t.name();
    for (let round = 1; round <= 10; round++) {
      t.hold(name);
      const { held, pending } = await t.modes(name);
      t.equal(held.length + pending.length, round, `round ${round}`);
      t.equal(held.length, 1, 'held');
    }
  });

  test('WL-095 a lock counts as held before its callback has started', async (t) => {
    const name = t.name();
    let started = false;
    const log = [];
    const waiting = t.locks.request(name, () => {
      started = true;
    });
    const snapshot = t.modes(name).then((modes) => log.push(modes.held.length || started));
    await Promise.all([waiting, snapshot]);
    t.ok(log[0], 'held in the snapshot, or the callback had already ended');
    const behind = t.hold(t.name('y'));
    await t.expectModes(t.name('y'), ['exclusive'], [], 'held, not pending');
    await behind.granted;
  });

  test('WL-094 WL-099 every live request is in exactly one list of a snapshot', async (t) => {
    const name = t.name();
    const all = Array.from({ length: 30 }, (_, index) => t.hold(name, { mode: index % 3 ? 'shared' : 'exclusive' }));
    let expected = all.length;
    for (const each of all) {
      const { held, pending } = await t.modes(name);
      t.equal(held.length + pending.length, expected, 'entries');
      t.ok(held.length >= 1, 'somebody holds');
      await each.granted;
      each.release();
      await each.released;
      expected--;
    }
    await t.expectModes(name, [], []);
  });

  test('WL-100 WL-101 pending entries of one name come in the order of the requests', async (t) => {
    const [a, b] = [t.name('a'), t.name('b')];
    const modes = ['exclusive', 'shared', 'exclusive', 'shared', 'shared', 'exclusive'];
    await t.held(a);
    await t.held(b);
    for (const mode of modes) {
      t.hold(a, { mode });
      t.hold(b, { mode });
    }
    await t.expectModes(a, ['exclusive'], modes);
    await t.expectModes(b, ['exclusive'], modes);
  });

  test('WL-071 WL-073 WL-115 two locks of one context share one opaque client id', async (t) => {
    await t.held(t.name('a'));
    await t.held(t.name('b'));
    t.hold(t.name('b'));
    const a = await t.entries(t.name('a'));
    const b = await t.entries(t.name('b'));
    const ids = [...a.held, ...b.held, ...b.pending].map((entry) => entry.clientId);
    t.equal(new Set(ids).size, 1, 'client ids');
    t.ok(ids[0].length > 0, 'not empty');
  });

  test('WL-032 a query made after the release lists the next holder', async (t) => {
    const name = t.name();
    const first = await t.held(name);
    const second = t.hold(name, { mode: 'shared' });
    await t.expectModes(name, ['exclusive'], ['shared']);
    first.release();
    await first.released;
    await t.expectModes(name, ['shared'], [], 'right after the release');
    await second.granted;
  });

  test('WL-115 WL-013 names come from the application only', async (t) => {
    const name = t.name();
    await t.locks.request(name, async () => {
      const { held } = await t.locks.query();
      t.equal(held.filter((entry) => entry.name === name).length, 1, 'entries of the name');
    });
    await t.expectModes(name, [], [], 'nothing of it is left');
  });

  test('WL-072 WL-074 fifty queries at once are each answered with a full snapshot', async (t) => {
    const name = t.name();
    await t.held(name);
    const snapshots = await Promise.all(Array.from({ length: 50 }, () => t.modes(name)));
    for (const snapshot of snapshots) t.same(snapshot, { held: ['exclusive'], pending: [] }, 'snapshot');
  });
})();
