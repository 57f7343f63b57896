// How long a lock is held, and what the promise of request() becomes.
(() => {
  'use strict';
  const { test } = surface;

  test('WL-005 WL-030 WL-052 who awaits the request goes on when the lock is no longer held', async (t) => {
    const name = t.name();
    let during;
    await t.locks.request(name, async () => {
      during = await t.modes(name);
    });
    t.same(during, { held: ['exclusive'], pending: [] }, 'during the callback');
    await t.expectModes(name, [], [], 'after the await');
  });

  test('WL-026 WL-027 the lock is held and the promise open until the returned promise settles', async (t) => {
    const name = t.name();
    const held = await t.held(name);
    let settled = false;
    held.released.then(() => (settled = true));
    await t.expectModes(name, ['exclusive'], []);
    await t.turn();
    t.ok(!settled, 'the promise is open');
    held.release('done');
    t.equal(await held.released, 'done', 'result');
    await t.expectModes(name, [], []);
  });

  test('WL-031 WL-047 the promise takes over every kind of value by identity', async (t) => {
    const values = [
      7,
      0,
      -0,
      NaN,
      '',
      null,
      undefined,
      false,
      1n,
      Symbol('s'),
      {},
      [],
      () => {},
      new Error('only a value'),
    ];
    for (const value of values) {
      t.equal(await t.locks.request(t.name(), () => value), value, t.show(value));
      t.equal(await t.locks.request(t.name(), async () => value), value, `promised ${t.show(value)}`);
    }
  });

  test('WL-031 WL-053 the promise takes over every kind of rejection by identity', async (t) => {
    for (const reason of [new Error('mine'), undefined, null, 0, 'text', {}, new DOMException('x', 'AbortError')]) {
      await t.rejects(
        t.locks.request(t.name(), async () => {
          throw reason;
        }),
        { is: reason },
        `rejection with ${t.show(reason)}`,
      );
      await t.rejects(
        t.locks.request(t.name(), () => {
          throw reason;
        }),
        { is: reason },
        `throw of ${t.show(reason)}`,
      );
    }
  });

  test('WL-053 WL-098 a synchronous throw releases the lock', async (t) => {
    const name = t.name();
    const error = new Error('mine');
    const thrown = t.locks.request(name, () => {
      throw error;
    });
    const next = t.locks.request(name, () => 'next');
    await t.rejects(thrown, { is: error }, 'the thrower');
    t.equal(await next, 'next', 'the waiter');
    await t.expectModes(name, [], []);
  });

  test('WL-053 WL-098 an asynchronous rejection releases the lock', async (t) => {
    const name = t.name();
    const held = await t.held(name);
    const next = t.locks.request(name, () => 'next');
    held.fail('mine');
    await t.rejects(held.released, { is: 'mine' }, 'the holder');
    t.equal(await next, 'next', 'the waiter');
    await t.expectModes(name, [], []);
  });

  test('WL-028 a plain value releases promptly, and the lock is held while the callback runs', async (t) => {
    const name = t.name();
    let query;
    const value = await t.locks.request(name, () => {
      query = t.modes(name);
      return 'plain';
    });
    t.equal(value, 'plain', 'value');
    const { held } = await query;
    t.ok(held.length <= 1, 'a query made in the callback is answered');
    await t.expectModes(name, [], []);
  });

  test('WL-026 WL-098 a returned thenable holds the lock until it resolves', async (t) => {
    const name = t.name();
    let resolve;
    let calls = 0;
    const called = t.defer();
    const released = t.locks.request(name, () => ({
      then(onResolve) {
        calls++;
        resolve = onResolve;
        called.resolve();
      },
    }));
    await t.soon(called.promise, 'the call of then');
    const next = t.hold(name);
    await t.expectModes(name, ['exclusive'], ['exclusive']);
    resolve('from the thenable');
    t.equal(await released, 'from the thenable', 'result');
    await next.granted;
    t.equal(calls, 1, 'calls of then');
  });

  test('WL-026 WL-053 a thenable that rejects, throws or has a throwing then releases', async (t) => {
    const name = t.name();
    const error = new Error('mine');
    await t.rejects(
      t.locks.request(name, () => ({ then: (_, reject) => reject(error) })),
      { is: error },
      'rejects',
    );
    await t.rejects(
      t.locks.request(name, () => ({
        then() {
          throw error;
        },
      })),
      { is: error },
      'throws',
    );
    await t.rejects(
      t.locks.request(name, () => ({
        get then() {
          throw error;
        },
      })),
      { is: error },
      'getter throws',
    );
    t.equal(
      await t.locks.request(name, () => ({ then: 5, mine: true })).then((value) => value.mine),
      true,
      'then is no function',
    );
    await t.expectModes(name, [], []);
  });

  test('WL-026 only the first settling of a thenable counts', async (t) => {
    const value = await t.locks.request(t.name(), () => ({
      then(resolve, reject) {
        resolve('first');
        reject(new Error('second'));
        throw new Error('third');
      },
    }));
    t.equal(value, 'first', 'value');
  });

  test('WL-026 the then of a returned thenable is called in a microtask, not inside the callback', async (t) => {
    const log = [];
    await t.locks.request(t.name(), () => {
      Promise.resolve().then(() => log.push('microtask'));
      return { then: (resolve) => (log.push('then'), resolve()), end: log.push('callback ends') };
    });
    t.same(log, ['callback ends', 'microtask', 'then'], 'order');
  });

  test('WL-026 nested promises and thenables are followed to their end', async (t) => {
    const inner = { then: (resolve) => resolve(Promise.resolve('deep')) };
    t.equal(
      await t.locks.request(t.name(), () => Promise.resolve({ then: (resolve) => resolve(inner) })),
      'deep',
      'value',
    );
  });

  test('WL-005 a request inside a callback works while the outer lock is held', async (t) => {
    const [outer, inner] = [t.name('outer'), t.name('inner')];
    const value = await t.locks.request(outer, () =>
      t.locks.request(inner, async () => {
        await t.expectModes(outer, ['exclusive'], []);
        await t.expectModes(inner, ['exclusive'], []);
        return 'nested';
      }),
    );
    t.equal(value, 'nested', 'value');
    await t.expectModes(outer, [], []);
  });

  test('WL-052 a rejection that nobody handles is reported as unhandled, once, with its reason', async (t) => {
    const error = new Error('mine');
    const promise = t.locks.request(t.name(), () => {
      throw error;
    });
    await t.until(() => t.unhandled.length > 0, 'the rejection is reported');
    t.equal(t.unhandled.length, 1, 'reports');
    t.equal(t.unhandled[0].reason, error, 'reason');
    t.equal(t.unhandled[0].promise, promise, 'promise');
    t.unhandled.length = 0;
    promise.catch(() => {});
  });

  test('WL-030 a hundred rounds of request and release leave nothing held or pending', async (t) => {
    const name = t.name();
    for (let round = 0; round < 100; round++) t.equal(await t.locks.request(name, () => round), round, 'round');
    await t.expectModes(name, [], []);
  });
})();
