// Abort by signal: before, at and after the grant (3.2.1, 4.1, 4.3, 4.4).
(() => {
  'use strict';
  const { test } = surface;

  test('WL-057 abort of a waiting request rejects with the default AbortError', async (t) => {
    const name = t.name();
    await t.held(name);
    const controller = new AbortController();
    const waiting = t.locks.request(name, { signal: controller.signal }, () => {});
    controller.abort();
    const error = await t.rejects(waiting, 'AbortError', 'waiting');
    t.equal(error, controller.signal.reason, 'the reason by identity');
  });

  test('WL-057 abort of a waiting request rejects with the given reason by identity', async (t) => {
    const name = t.name();
    await t.held(name);
    for (const reason of [new Error('mine'), { plain: 1 }, 'text', 0, null, false]) {
      const controller = new AbortController();
      const waiting = t.locks.request(name, { signal: controller.signal }, () => {});
      await t.expectModes(name, ['exclusive'], ['exclusive']);
      controller.abort(reason);
      await t.rejects(waiting, { is: reason }, t.show(reason));
    }
  });

  test('WL-080 abort in the line after request() works and the callback never runs', async (t) => {
    const name = t.name();
    for (let round = 0; round < 20; round++) {
      const controller = new AbortController();
      let called = false;
      const aborted = t.locks.request(name, { signal: controller.signal }, () => {
        called = true;
      });
      controller.abort(round);
      await t.rejects(aborted, { is: round }, 'free name');
      t.equal(await t.locks.request(name, () => 'next'), 'next', 'the name is free');
      t.ok(!called, 'the callback never ran');
    }
  });

  test('WL-089 WL-099 an aborted request leaves pending at once', async (t) => {
    const name = t.name();
    await t.held(name);
    const controllers = [1, 2, 3].map(() => new AbortController());
    const waiting = controllers.map(({ signal }) => t.locks.request(name, { signal }, () => {}).catch(() => 'aborted'));
    await t.expectModes(name, ['exclusive'], ['exclusive', 'exclusive', 'exclusive']);
    controllers[1].abort();
    await t.expectModes(name, ['exclusive'], ['exclusive', 'exclusive'], 'the very next query');
    controllers[0].abort();
    controllers[2].abort();
    await t.expectModes(name, ['exclusive'], [], 'after all aborts');
    t.same(await Promise.all(waiting), ['aborted', 'aborted', 'aborted'], 'outcomes');
  });

  test('WL-089 aborting a queued exclusive request wakes the shared ones behind it', async (t) => {
    const name = t.name();
    const reader = await t.held(name, { mode: 'shared' });
    const controller = new AbortController();
    const writer = t.locks.request(name, { signal: controller.signal }, () => {});
    const behind = [t.hold(name, { mode: 'shared' }), t.hold(name, { mode: 'shared' })];
    await t.expectModes(name, ['shared'], ['exclusive', 'shared', 'shared']);
    controller.abort();
    await t.rejects(writer, 'AbortError', 'writer');
    await Promise.all(behind.map((each) => each.granted));
    await t.expectModes(name, ['shared', 'shared', 'shared'], []);
    reader.release();
  });

  test('WL-089 aborting in the middle of the queue lets nobody overtake', async (t) => {
    const name = t.name();
    const reader = await t.held(name, { mode: 'shared' });
    const first = t.hold(name);
    const controller = new AbortController();
    const second = t.locks.request(name, { signal: controller.signal }, () => {});
    const third = t.hold(name, { mode: 'shared' });
    await t.expectModes(name, ['shared'], ['exclusive', 'exclusive', 'shared']);
    controller.abort();
    await t.rejects(second, 'AbortError', 'second');
    await t.expectModes(name, ['shared'], ['exclusive', 'shared']);
    reader.release();
    await first.granted;
    t.equal(third.lock, undefined, 'the reader waits for the writer');
  });

  test('WL-058 WL-091 WL-097 abort in the first line of the callback changes nothing', async (t) => {
    const name = t.name();
    const controller = new AbortController();
    const value = await t.locks.request(name, { signal: controller.signal }, async () => {
      controller.abort();
      await t.expectModes(name, ['exclusive'], []);
      return 'untouched';
    });
    t.equal(value, 'untouched', 'result');
  });

  test('WL-058 WL-091 abort while the lock is held changes nothing', async (t) => {
    const name = t.name();
    const controller = new AbortController();
    const held = await t.held(name, { signal: controller.signal });
    controller.abort();
    await t.turn();
    await t.expectModes(name, ['exclusive'], []);
    held.release('untouched');
    t.equal(await held.released, 'untouched', 'result');
  });

  test('WL-058 abort after the release changes nothing', async (t) => {
    const controller = new AbortController();
    t.equal(await t.locks.request(t.name(), { signal: controller.signal }, () => 1), 1, 'result');
    controller.abort();
    await t.turn();
    t.equal(t.unhandled.length, 0, 'unhandled rejections');
  });

  test('WL-090 WL-096 an abort between request and callback wins, whenever it comes', async (t) => {
    const name = t.name();
    const seen = { ran: 0, aborted: 0 };
    for (let round = 0; round < 60; round++) {
      const controller = new AbortController();
      let called = false;
      const outcome = t.settle(
        t.locks.request(name, { signal: controller.signal }, () => {
          called = true;
        }),
      );
      if (round % 3 === 1) await t.microtasks(round);
      if (round % 3 === 2) for (let turns = 0; turns < round / 6; turns++) await t.turn();
      const calledBefore = called;
      controller.abort(round);
      const { state, reason } = await outcome;
      await t.turn();
      t.equal(called, calledBefore, `round ${round}: after the abort the callback does not start`);
      t.equal(state, called ? 'fulfilled' : 'rejected', `round ${round}`);
      if (!called) t.equal(reason, round, 'reason');
      seen[called ? 'ran' : 'aborted']++;
      t.equal(await t.locks.request(name, () => 'next'), 'next', `round ${round}: the name becomes free again`);
    }
    t.ok(seen.aborted >= 20, `aborts that won: ${seen.aborted}`);
  });

  test('WL-096 an aborted grant passes the lock on to the next', async (t) => {
    const name = t.name();
    const held = await t.held(name);
    const controller = new AbortController();
    const second = t.locks.request(name, { signal: controller.signal }, () => 'never');
    const third = t.hold(name);
    await t.expectModes(name, ['exclusive'], ['exclusive', 'exclusive']);
    held.release();
    controller.abort('between');
    await t.rejects(second, { is: 'between' }, 'second');
    await third.granted;
    await t.expectModes(name, ['exclusive'], []);
  });

  test('WL-090 the promise of an aborted request rejects without waiting for the manager', async (t) => {
    const name = t.name();
    await t.held(name);
    const log = [];
    const controller = new AbortController();
    const waiting = t.locks.request(name, { signal: controller.signal }, () => {}).catch(() => log.push('rejected'));
    await t.expectModes(name, ['exclusive'], ['exclusive']);
    const later = t.turn().then(() => log.push('next task'));
    controller.abort();
    await Promise.all([waiting, later]);
    t.same(log, ['rejected', 'next task'], 'order');
  });

  test('WL-080 one signal aborts all the requests it was given to', async (t) => {
    const name = t.name();
    await t.held(name);
    const controller = new AbortController();
    const { signal } = controller;
    const waiting = [1, 2, 3].map((each) => t.locks.request(each === 3 ? t.name('free') : name, { signal }, () => {}));
    controller.abort('all');
    for (const each of waiting) await t.rejects(each, { is: 'all' }, 'each');
    await t.expectModes(name, ['exclusive'], []);
    await t.expectModes(t.name('free'), [], []);
  });

  test('WL-057 a timeout signal limits the wait and is ignored once granted', async (t) => {
    const name = t.name();
    const held = await t.held(name);
    const error = await t.rejects(
      t.locks.request(name, { signal: AbortSignal.timeout(50) }, () => {}),
      'TimeoutError',
      'in vain',
    );
    t.equal(error.name, 'TimeoutError', 'name');
    held.release();
    const signal = AbortSignal.timeout(500);
    const value = await t.locks.request(t.name('free'), { signal }, async () => {
      await t.until(() => signal.aborted, 'the time has passed');
      return 'in time';
    });
    t.equal(value, 'in time', 'granted before the timeout');
  });

  test('WL-080 a listener that stops the abort event does not keep the request alive', async (t) => {
    const name = t.name();
    await t.held(name);
    const controller = new AbortController();
    controller.signal.addEventListener('abort', (event) => event.stopImmediatePropagation());
    const waiting = t.locks.request(name, { signal: controller.signal }, () => {});
    controller.abort('anyway');
    await t.rejects(waiting, { is: 'anyway' }, 'waiting');
    await t.expectModes(name, ['exclusive'], []);
  });

  test('WL-080 a made-up abort event does not abort', async (t) => {
    const name = t.name();
    const held = await t.held(name);
    const { signal } = new AbortController();
    const waiting = t.locks.request(name, { signal }, () => 'granted');
    signal.dispatchEvent(new Event('abort'));
    await t.expectModes(name, ['exclusive'], ['exclusive']);
    held.release();
    t.equal(await waiting, 'granted', 'result');
  });

  test('WL-080 a listener of the abort event already finds the request withdrawn', async (t) => {
    const name = t.name();
    await t.held(name);
    const controller = new AbortController();
    const log = [];
    let queried;
    controller.signal.addEventListener('abort', () => {
      queried = t.modes(name);
    });
    const waiting = t.locks.request(name, { signal: controller.signal }, () => {}).catch(() => log.push('rejected'));
    await t.expectModes(name, ['exclusive'], ['exclusive']);
    controller.abort();
    t.same(await queried, { held: ['exclusive'], pending: [] }, 'query in the listener');
    await waiting;
  });
})();
