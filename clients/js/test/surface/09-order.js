// The order of tasks and microtasks as a script can observe it.
(() => {
  'use strict';
  const { test } = surface;

  test('WL-055 WL-081 request() returns before anything happens, and the callback is a task of its own', async (t) => {
    for (const options of [{}, { ifAvailable: true }, { steal: true }, { mode: 'shared' }]) {
      const log = [];
      const done = t.locks.request(t.name(), options, () => {
        log.push('callback');
      });
      log.push('returned');
      await t.microtasks(200);
      log.push('after 200 microtasks');
      await done;
      t.same(log, ['returned', 'after 200 microtasks', 'callback'], t.show(options));
    }
  });

  test('WL-055 the callback of a refused ifAvailable is a task too', async (t) => {
    const name = t.name();
    await t.held(name);
    const log = [];
    const done = t.locks.request(name, { ifAvailable: true }, () => {
      log.push('callback');
    });
    await t.microtasks(200);
    log.push('after 200 microtasks');
    await done;
    t.same(log, ['after 200 microtasks', 'callback'], 'order');
  });

  test('WL-030 WL-032 the promise of a holder settles before the callback of the next', async (t) => {
    const name = t.name();
    const log = [];
    const visits = [1, 2, 3].map((index) =>
      t.locks
        .request(name, () => {
          log.push(`callback ${index}`);
        })
        .then(() => log.push(`released ${index}`)),
    );
    await Promise.all(visits);
    t.same(log, ['callback 1', 'released 1', 'callback 2', 'released 2', 'callback 3', 'released 3'], 'order');
  });

  test('WL-010 WL-098 two callbacks are two tasks: the microtasks of the first run before the second', async (t) => {
    const name = t.name();
    const log = [];
    const gate = await t.held(name);
    const visits = [1, 2].map((index) =>
      t.locks.request(name, { mode: 'shared' }, async () => {
        log.push(`callback ${index}`);
        await t.microtasks(20);
        log.push(`microtasks ${index}`);
      }),
    );
    await t.expectModes(name, ['exclusive'], ['shared', 'shared']);
    gate.release();
    await Promise.all(visits);
    t.same(log, ['callback 1', 'microtasks 1', 'callback 2', 'microtasks 2'], 'order');
  });

  test('WL-028 the promise settles in a microtask after that of a plain value, not inside the callback', async (t) => {
    const log = [];
    await t.locks
      .request(t.name(), () => {
        Promise.resolve().then(() => log.push('microtask of the callback'));
        log.push('callback ends');
      })
      .then(() => log.push('released'));
    t.same(log, ['callback ends', 'microtask of the callback', 'released'], 'order');
  });

  test('WL-009 requests of one context reach the manager in the order of the calls, whatever the name', async (t) => {
    const log = [];
    const names = ['c', 'a', 'b', 'd'].map((each) => t.name(each));
    await Promise.all(
      names.map((name, index) =>
        t.locks.request(name, () => {
          log.push(index);
        }),
      ),
    );
    t.same(log, [0, 1, 2, 3], 'order of the callbacks');
  });

  test('WL-009 request, abort, request and query in one turn take effect in that order', async (t) => {
    const name = t.name();
    const controller = new AbortController();
    const first = t.hold(name);
    const aborted = t.locks.request(name, { signal: controller.signal }, () => {}).catch((reason) => reason);
    t.hold(name, { mode: 'shared' });
    controller.abort('gone');
    const after = t.locks.request(name, { ifAvailable: true }, (lock) => lock);
    await t.expectModes(name, ['exclusive'], ['shared']);
    t.equal(await aborted, 'gone', 'the aborted one');
    t.equal(await after, null, 'ifAvailable behind them');
    await first.granted;
  });

  test('WL-090 an abort in the same turn as the release of the holder still wins', async (t) => {
    const name = t.name();
    for (let round = 0; round < 10; round++) {
      const held = await t.held(name);
      const controller = new AbortController();
      let called = false;
      const waiting = t.locks.request(name, { signal: controller.signal }, () => {
        called = true;
      });
      held.release();
      await held.released;
      controller.abort('gone');
      const outcome = await t.settle(waiting);
      t.equal(outcome.state, called ? 'fulfilled' : 'rejected', `round ${round}`);
      t.equal(await t.locks.request(name, () => 'free'), 'free', 'the next');
    }
  });

  test('WL-081 a thousand requests in one turn do not block the turn and are all granted', async (t) => {
    const log = [];
    const visits = Array.from({ length: 1000 }, (_, index) => t.locks.request(t.name(String(index % 50)), () => index));
    log.push('asked');
    const results = await t.soon(Promise.all(visits), 'a thousand grants', 15_000);
    t.equal(log[0], 'asked', 'the turn went on');
    t.same(
      results,
      results.map((_, index) => index),
      'results',
    );
  });
})();
