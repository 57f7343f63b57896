// What lockhouse adds, on the client that `install` and `connect` return: never on the specification's own
// objects.
(() => {
  'use strict';
  const extended = () => installed.locks;
  const test = (title, body) => surface.test(title, body, { mode: 'lockhouse' });

  /** A second client of this context, closed with the test. */
  function secondClient(t, options = {}) {
    const client = lockhouse.connect(surface.url, { ...globalThis.lockhouseOptions, ...options });
    t.cleanup(() => client.close());
    return client;
  }

  /** Takes a lock of the extended manager and keeps it until the end of the test. */
  async function keep(t, name, options = {}) {
    const ended = t.defer();
    const granted = t.defer();
    const kept = { release: ended.resolve };
    kept.released = extended().request(name, options, (lock) => {
      granted.resolve(lock);
      return ended.promise;
    });
    kept.released.catch(granted.reject);
    t.cleanup(() => ended.resolve());
    kept.lock = await t.soon(granted.promise, `the grant of ${name}`);
    return kept;
  }

  test('WL-079 WL-046 the extensions are not on the objects of the specification', async (t) => {
    t.same(Reflect.ownKeys(LockManager.prototype).length, 4, 'members of LockManager.prototype');
    t.same(Reflect.ownKeys(Lock.prototype).length, 4, 'members of Lock.prototype');
    await navigator.locks.request(t.name(), (lock) => {
      for (const key of ['signal', 'fencingToken', 'release']) t.ok(!(key in lock), `the lock has no ${key}`);
    });
    for (const key of ['acquire', 'requestAll']) t.ok(!(key in navigator.locks), `navigator.locks has no ${key}`);
  });

  test('fencing tokens strictly grow over the grants of the bucket, shared ones included', async (t) => {
    const tokens = [];
    for (let round = 0; round < 10; round++) {
      for (const mode of ['exclusive', 'shared', 'shared']) {
        await extended().request(t.name(String(round % 3)), { mode }, (lock) => {
          tokens.push(lock.fencingToken);
        });
      }
    }
    for (const [index, token] of tokens.entries()) {
      t.ok(Number.isSafeInteger(token) && token > 0, `token ${token}`);
      if (index > 0) t.ok(token > tokens[index - 1], `${token} after ${tokens[index - 1]}`);
    }
  });

  test('WL-059 the signal of a stolen lock aborts with the reason stolen, the same error as the promise', async (t) => {
    const name = t.name();
    const victim = await keep(t, name);
    const aborted = new Promise((resolve) =>
      victim.lock.signal.addEventListener('abort', () => resolve(victim.lock.signal.reason)),
    );
    t.equal(victim.lock.signal.aborted, false, 'aborted before the steal');
    const thief = t.held(name, { steal: true });
    const reason = await t.soon(aborted, 'the signal');
    t.equal(reason.name, 'AbortError', 'name');
    t.equal(reason.reason, 'stolen', 'reason');
    await t.rejects(victim.released, { is: reason }, 'the promise');
    t.throws(DOMException, () => victim.lock.fencingToken, 'the token of a lost lock');
    await thief;
  });

  test('a signal that is first looked at after the loss is aborted already', async (t) => {
    const name = t.name();
    const victim = await keep(t, name);
    victim.released.catch(() => {});
    await t.held(name, { steal: true });
    t.equal(victim.lock.signal.aborted, true, 'aborted');
    t.equal(victim.lock.signal.reason.reason, 'stolen', 'reason');
  });

  test('a release does not abort the signal', async (t) => {
    const kept = await keep(t, t.name());
    kept.release('done');
    t.equal(await kept.released, 'done', 'result');
    t.equal(kept.lock.signal.aborted, false, 'aborted');
  });

  test('heldLock gives the extended view of a lock of navigator.locks', async (t) => {
    const name = t.name();
    await navigator.locks.request(name, (lock) => {
      const held = lockhouse.heldLock(lock);
      t.ok(held.fencingToken > 0, 'token');
      t.equal(held.signal.aborted, false, 'signal');
      t.equal(held.name, name, 'name');
    });
    t.throws(TypeError, () => lockhouse.heldLock({}), 'heldLock of something else');
  });

  test('SP-018 timeout gives up a waiting request with a TimeoutError and takes it out of the queue', async (t) => {
    const name = t.name();
    await t.held(name);
    // Longer than a snapshot takes over a slow link, and awaited from the beginning.
    const rejects = t.rejects(
      extended().request(name, { timeout: 500 }, () => 'never'),
      'TimeoutError',
      'waiting',
    );
    await t.expectModes(name, ['exclusive'], ['exclusive']);
    await rejects;
    await t.expectModes(name, ['exclusive'], [], 'after the timeout');
  });

  test('WL-024 a timeout has no effect once the lock is granted', async (t) => {
    const signal = AbortSignal.timeout(600);
    const value = await extended().request(t.name(), { timeout: 500 }, async () => {
      await t.until(() => signal.aborted, 'more time than the timeout has passed');
      return 'in time';
    });
    t.equal(value, 'in time', 'result');
  });

  test('maxHold takes the lock away with the reason expired and grants the next', async (t) => {
    const name = t.name();
    const kept = await keep(t, name, { maxHold: 100 });
    const next = t.hold(name);
    const error = await t.rejects(kept.released, 'AbortError', 'the holder');
    t.equal(error.reason, 'expired', 'reason');
    t.equal(kept.lock.signal.aborted, true, 'signal');
    await next.granted;
  });

  test('options that lockhouse adds are checked, and the error names the field', async (t) => {
    for (const [field, value] of [
      ['timeout', -1],
      ['timeout', NaN],
      ['timeout', 'soon'],
      ['maxHold', 0],
      ['maxHold', -5],
      ['maxHold', 'x'],
    ]) {
      const error = await t.rejects(
        extended().request(t.name(), { [field]: value }, () => {}),
        TypeError,
        `${field} ${value}`,
      );
      t.ok(error.message.includes(field), `the message names ${field}: ${error.message}`);
    }
    const error = await t.rejects(
      extended().request(t.name(), { metadata: 'm'.repeat(1025) }, () => {}),
      DOMException,
      'metadata over the limit',
    );
    t.equal(error.name, 'QuotaExceededError', 'name');
  });

  test('WL-113 metadata is taken, and plain snapshots do not show it', async (t) => {
    const name = t.name();
    await keep(t, name, { metadata: 'for operators' });
    const { held } = await t.entries(name);
    t.same(Object.keys(held[0]), ['clientId', 'mode', 'name'], 'keys');
  });

  test('WL-012 SP-013 a name of 4096 units is granted, one more is a QuotaExceededError', async (t) => {
    const longest = t.name('x').padEnd(4096, 'x');
    t.equal(await t.locks.request(longest, (lock) => lock.name.length), 4096, 'the longest name');
    const error = await t.rejects(
      t.locks.request(`${longest}x`, () => {}),
      DOMException,
      'one unit more',
    );
    t.equal(error.name, 'QuotaExceededError', 'name');
    const wide = '\ud800'.repeat(4096 - longest.indexOf('x'));
    t.equal(
      await t.locks.request(wide.slice(0, 4096), (lock) => lock.name),
      wide.slice(0, 4096),
      '4096 lone surrogates',
    );
  });

  test('acquire holds until release', async (t) => {
    const name = t.name();
    const lock = await extended().acquire(name);
    t.equal(lock.name, name, 'name');
    t.ok(lock.fencingToken > 0, 'token');
    await t.expectModes(name, ['exclusive'], []);
    await lock.release();
    await t.expectModes(name, [], []);
    await lock.release();
  });

  test('acquire serves await using', async (t) => {
    if (typeof Symbol.asyncDispose !== 'symbol') return;
    const name = t.name();
    const lock = await extended().acquire(name, { mode: 'shared' });
    t.equal(typeof lock[Symbol.asyncDispose], 'function', 'asyncDispose');
    await lock[Symbol.asyncDispose]();
    await t.expectModes(name, [], []);
  });

  test('acquire passes ifAvailable, abort, checks and loss on', async (t) => {
    const name = t.name();
    const lock = await extended().acquire(name);
    t.equal(await extended().acquire(name, { ifAvailable: true }), null, 'ifAvailable');
    const controller = new AbortController();
    const waiting = extended().acquire(name, { signal: controller.signal });
    controller.abort('mine');
    await t.rejects(waiting, { is: 'mine' }, 'abort');
    await t.rejects(extended().acquire('-x'), 'NotSupportedError', 'reserved name');
    await t.held(name, { steal: true });
    t.equal(lock.signal.reason.reason, 'stolen', 'loss');
    await t.rejects(lock.release(), 'AbortError', 'release of a lost lock');
  });

  test('WL-105 WL-106 requestAll takes a sorted copy of the names and frees all at the end', async (t) => {
    const names = ['c', 'a', 'b'].map((each) => t.name(each));
    const given = [...names];
    const value = await extended().requestAll(given, async (locks) => {
      t.same(
        locks.map((lock) => lock.name),
        names.toSorted(),
        'locks, sorted',
      );
      for (const name of names) await t.expectModes(name, ['exclusive'], []);
      return 'all';
    });
    t.equal(value, 'all', 'result');
    t.same(given, names, 'the list of the caller');
    for (const name of names) await t.expectModes(name, [], []);
  });

  test('WL-106 requestAll frees all when its callback throws', async (t) => {
    const error = new Error('mine');
    const names = ['a', 'b'].map((each) => t.name(each));
    await t.rejects(
      extended().requestAll(names, () => {
        throw error;
      }),
      { is: error },
      'throw',
    );
    for (const name of names) await t.expectModes(name, [], []);
  });

  test('WL-106 SP-012 requestAll drops duplicates, the strongest mode wins, and an empty list runs at once', async (t) => {
    const [a, b] = [t.name('a'), t.name('b')];
    const targets = [{ name: a, mode: 'shared' }, { name: b, mode: 'shared' }, a];
    const modes = await extended().requestAll(targets, (locks) => locks.map((lock) => [lock.name, lock.mode]));
    t.same(
      modes,
      [
        [a, 'exclusive'],
        [b, 'shared'],
      ],
      'locks',
    );
    t.equal(await extended().requestAll([], (locks) => locks.length), 0, 'empty list');
  });

  test('WL-105 requestAll of many over the same names never deadlocks', async (t) => {
    const names = ['a', 'b', 'c', 'd', 'e'].map((each) => t.name(each));
    let inside = 0;
    const runs = Array.from({ length: 60 }, (_, index) => {
      const wanted = names.filter((_, bit) => ((index * 7 + 3) >> bit) & 1 || bit === index % 5).reverse();
      return extended().requestAll(wanted, async () => {
        inside++;
        await t.turn();
      });
    });
    await t.soon(Promise.all(runs), 'all runs', 15_000);
    t.equal(inside, 60, 'runs');
  });

  test('WL-106 requestAll with ifAvailable gets null and holds nothing unless all are free', async (t) => {
    const [a, b] = [t.name('a'), t.name('b')];
    await t.held(b);
    t.equal(await extended().requestAll([a, b], { ifAvailable: true }, (locks) => locks), null, 'locks');
    await t.expectModes(a, [], []);
  });

  test('close rejects everything pending with AbortError, releases what is held, and ends the client', async (t) => {
    const name = t.name();
    const client = secondClient(t);
    const holder = client.locks.request(name, () => new Promise(() => {}));
    const waiter = client.locks.request(name, () => {});
    const query = client.locks.query();
    for (const promise of [holder, waiter, query]) promise.catch(() => {});
    await t.until(async () => (await t.entries(name)).pending.length === 1, 'both are known to the server');
    const late = client.locks.query();
    client.close();
    for (const [what, promise] of Object.entries({ holder, waiter, late }))
      await t.rejects(promise, 'AbortError', what);
    t.equal(client.state, 'closed', 'state');
    await t.rejects(
      client.locks.request(name, () => {}),
      'InvalidStateError',
      'request after close',
    );
    await t.rejects(client.locks.query(), 'InvalidStateError', 'query after close');
    t.ok((await t.held(name)).lock, 'the name is free');
    client.close();
  });

  test('calls made before the connection is open are asked in their order', async (t) => {
    const name = t.name();
    const states = [];
    const client = secondClient(t, { onstate: (state) => states.push(state) });
    const order = [];
    const visits = [1, 2, 3].map((index) =>
      client.locks.request(name, () => {
        order.push(index);
      }),
    );
    const seen = await client.locks.query();
    await Promise.all(visits);
    t.same(order, [1, 2, 3], 'order');
    t.ok(seen.held.length + seen.pending.length > 0, 'the query saw them');
    t.same(states, ['connecting', 'open'], 'states');
    client.close();
    t.same(states, ['connecting', 'open', 'closed'], 'states');
  });

  test('WL-016 bucket() gives another lock manager of the same server', async (t) => {
    const name = t.name();
    const client = secondClient(t);
    const other = client.bucket(t.name('bucket'));
    t.equal(client.bucket(other.name), other, 'the same bucket each time');
    await t.held(name);
    t.equal(await client.locks.request(name, { ifAvailable: true }, (lock) => lock), null, 'the own bucket');
    t.ok(await other.locks.request(name, { ifAvailable: true }, (lock) => lock !== null), 'the other bucket');
    t.same(await other.locks.query(), { held: [], pending: [] }, 'what the other bucket shows');
  });

  test('WL-073 two clients of one context share the client id of the context', async (t) => {
    const name = t.name();
    const client = secondClient(t);
    await t.held(name, { mode: 'shared' });
    const done = t.defer();
    const granted = t.defer();
    const released = client.locks.request(name, { mode: 'shared' }, () => (granted.resolve(), done.promise));
    await granted.promise;
    const { held } = await t.entries(name);
    t.equal(held.length, 2, 'holders');
    t.equal(held[0].clientId, held[1].clientId, 'client id');
    done.resolve();
    await released;
  });

  test('an address that cannot be used is a TypeError of connect itself', async (t) => {
    for (const url of ['http://[', 'ftp://host/', 'file:///x', 'mailto:a@b'])
      t.throws(TypeError, () => lockhouse.connect(url, globalThis.lockhouseOptions), url);
  });
})();
