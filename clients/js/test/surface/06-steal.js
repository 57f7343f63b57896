// Steal: the escape hatch, its victims, and its races (3.2.1, 4.1).
(() => {
  'use strict';
  const { test } = surface;
  const steal = { steal: true };

  test('WL-059 WL-083 steal breaks every shared lock of the name and passes the queue', async (t) => {
    const name = t.name();
    const readers = await Promise.all([1, 2, 3].map(() => t.held(name, { mode: 'shared' })));
    const waiters = [t.hold(name), t.hold(name, { mode: 'shared' })];
    await t.expectModes(name, ['shared', 'shared', 'shared'], ['exclusive', 'shared']);
    const thief = await t.held(name, steal);
    for (const reader of readers) await t.rejects(reader.released, 'AbortError', 'a victim');
    await t.expectModes(name, ['exclusive'], ['exclusive', 'shared']);
    thief.release();
    await waiters[0].granted;
    t.equal(waiters[1].lock, undefined, 'the second waiter waits on');
  });

  test('WL-059 the error of a victim is an AbortError of its own realm', async (t) => {
    const name = t.name();
    const victim = await t.held(name);
    await t.held(name, steal);
    const error = await t.rejects(victim.released, 'AbortError', 'victim');
    t.equal(error.code, 20, 'legacy code');
    t.ok(error.message.length > 0, 'the error says something');
  });

  test('WL-085 steal of a free name is an ordinary grant', async (t) => {
    const name = t.name();
    const thief = await t.held(name, steal);
    t.equal(thief.lock.mode, 'exclusive', 'mode');
    thief.release('done');
    t.equal(await thief.released, 'done', 'result');
  });

  test('WL-085 steal of a name that has only waiters behind a free head passes them', async (t) => {
    const name = t.name();
    const holder = await t.held(name);
    const waiter = t.hold(name);
    const thief = await t.held(name, steal);
    await t.rejects(holder.released, 'AbortError', 'holder');
    await t.expectModes(name, ['exclusive'], ['exclusive']);
    t.equal(waiter.lock, undefined, 'the waiter waits on');
    thief.release();
    await waiter.granted;
  });

  test('WL-085 a stealer can be stolen from', async (t) => {
    const name = t.name();
    const first = await t.held(name, steal);
    const second = await t.held(name, steal);
    await t.rejects(first.released, 'AbortError', 'first stealer');
    await t.expectModes(name, ['exclusive'], []);
    second.release(2);
    t.equal(await second.released, 2, 'second stealer');
  });

  test('WL-060 WL-061 WL-084 the callback of a victim goes on, and its end does not disturb the stealer', async (t) => {
    const name = t.name();
    const log = [];
    const go = t.defer();
    const ended = t.defer();
    const started = t.defer();
    const victim = t.locks.request(name, async () => {
      started.resolve();
      await go.promise;
      log.push('the victim goes on');
      ended.resolve();
      return 'ignored';
    });
    victim.catch(() => {});
    await started.promise;
    const thief = await t.held(name, steal);
    await t.rejects(victim, 'AbortError', 'victim');
    const waiter = t.hold(name);
    go.resolve();
    await ended.promise;
    await t.turn();
    t.same(log, ['the victim goes on'], 'log');
    await t.expectModes(name, ['exclusive'], ['exclusive'], 'the stealer keeps the lock');
    t.equal(waiter.lock, undefined, 'no double grant');
    thief.release();
    await waiter.granted;
  });

  test('WL-084 a victim whose callback rejects later causes no second error', async (t) => {
    const name = t.name();
    const victim = await t.held(name);
    const thief = await t.held(name, steal);
    await t.rejects(victim.released, 'AbortError', 'victim');
    victim.fail(new Error('too late'));
    await t.turn();
    await t.expectModes(name, ['exclusive'], []);
    thief.release();
    await thief.released;
    t.equal(t.unhandled.length, 0, 'unhandled rejections');
  });

  test('WL-083 every victim rejects before the callback of the stealer runs', async (t) => {
    const name = t.name();
    const log = [];
    const victims = await Promise.all([1, 2, 3].map(() => t.held(name, { mode: 'shared' })));
    const rejections = victims.map((victim) => victim.released.catch(() => log.push('victim')));
    await t.locks.request(name, steal, () => {
      log.push('stealer');
    });
    await Promise.all(rejections);
    t.same(log, ['victim', 'victim', 'victim', 'stealer'], 'order');
  });

  test('WL-083 of two steals in one turn the first callback starts and then its promise rejects', async (t) => {
    const name = t.name();
    const log = [];
    const first = t.locks.request(name, steal, () => {
      log.push('first starts');
      return new Promise(() => {});
    });
    const rejected = first.catch((error) => log.push(`first ${error.name}`));
    const second = t.locks.request(name, steal, () => {
      log.push('second starts');
    });
    await t.soon(Promise.all([rejected, second]), 'both');
    t.same(log, ['first starts', 'first AbortError', 'second starts'], 'order');
  });

  test('SP-010 a lock that is stolen before its callback started still runs it', async (t) => {
    const name = t.name();
    const log = [];
    const victim = t.locks.request(name, (lock) => {
      log.push(`victim ${lock?.name === name}`);
      return new Promise(() => {});
    });
    const thief = t.hold(name, steal);
    await t.rejects(victim, 'AbortError', 'victim');
    await thief.granted;
    t.same(log, ['victim true'], 'callbacks');
    await t.expectModes(name, ['exclusive'], []);
  });

  test('WL-030 WL-084 a lock whose callback settled before its client hears of a steal resolves normally', async (t) => {
    const name = t.name();
    for (let round = 0; round < 10; round++) {
      const victim = await t.held(name);
      victim.release('settled first');
      const thief = t.hold(name, steal);
      t.equal(await victim.released, 'settled first', `round ${round}`);
      await thief.granted;
      thief.release();
      await thief.released;
    }
  });

  test('WL-059 steal touches no other name', async (t) => {
    const other = await t.held(t.name('other'));
    await t.held(t.name('taken'));
    await t.held(t.name('taken'), steal);
    await t.expectModes(t.name('other'), ['exclusive'], []);
    other.release('untouched');
    t.equal(await other.released, 'untouched', 'the other lock');
  });

  test('WL-085 a steal is granted in one step and never shows as pending', async (t) => {
    const name = t.name();
    await t.held(name);
    const thief = t.hold(name, steal);
    const { held, pending } = await t.modes(name);
    t.same([held.length, pending.length], [1, 0], 'held and pending right after the steal');
    await thief.granted;
  });
})();
