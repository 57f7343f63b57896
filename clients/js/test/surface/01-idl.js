// The shape of the interfaces, as an IDL checker sees it (Web Locks 3.1 to 3.3 by the rules of Web IDL).
(() => {
  'use strict';
  const { test } = surface;
  const navigatorOf = () => (globalThis.Navigator ? Navigator : WorkerNavigator);
  const describe = (object, key) => Object.getOwnPropertyDescriptor(object, key);

  function expectInterface(t, name) {
    const descriptor = describe(globalThis, name);
    t.ok(descriptor, `${name} is on the global`);
    t.same(
      [descriptor.writable, descriptor.enumerable, descriptor.configurable],
      [true, false, true],
      `${name} descriptor`,
    );
    const ctor = descriptor.value;
    t.equal(typeof ctor, 'function', name);
    t.same(
      describe(ctor, 'name'),
      { value: name, writable: false, enumerable: false, configurable: true },
      `${name}.name`,
    );
    t.same(
      describe(ctor, 'length'),
      { value: 0, writable: false, enumerable: false, configurable: true },
      `${name}.length`,
    );
    t.equal(Object.getPrototypeOf(ctor), Function.prototype, `prototype of ${name}`);
    const { value: prototype, ...flags } = describe(ctor, 'prototype');
    t.same(flags, { writable: false, enumerable: false, configurable: false }, `${name}.prototype`);
    t.equal(Object.getPrototypeOf(prototype), Object.prototype, `prototype of ${name}.prototype`);
    const own = describe(prototype, 'constructor');
    t.equal(own.value, ctor, 'constructor');
    t.same([own.writable, own.enumerable, own.configurable], [true, false, true], 'constructor');
    const tag = describe(prototype, Symbol.toStringTag);
    t.same(tag, { value: name, writable: false, enumerable: false, configurable: true }, 'toStringTag');
    t.throws(TypeError, () => new ctor(), `new ${name}()`);
    t.throws(TypeError, () => ctor(), `${name}()`);
    t.throws(TypeError, () => new (class extends ctor {})(), `new (class extends ${name})()`);
  }

  function expectAccessor(t, prototype, key, strangers) {
    const { get, set, enumerable, configurable } = describe(prototype, key);
    t.same([set, enumerable, configurable], [undefined, true, true], `${key} is read-only, enumerable, configurable`);
    t.equal(get.name, `get ${key}`, 'name of the getter');
    t.equal(get.length, 0, 'length of the getter');
    t.ok(!('prototype' in get), 'the getter is no constructor');
    for (const stranger of strangers)
      t.throws(TypeError, () => get.call(stranger), `${key} of ${Object.prototype.toString.call(stranger)}`);
  }

  test('WL-044 locks is a read-only enumerable accessor of the navigator interface', async (t) => {
    const { prototype } = navigatorOf();
    expectAccessor(t, prototype, 'locks', [undefined, null, {}, 1, prototype, Object.create(navigator), globalThis]);
    t.ok(!Object.hasOwn(navigator, 'locks'), 'navigator has no own locks');
    t.throws(
      TypeError,
      () => {
        navigator.locks = 1;
      },
      'assignment in strict code',
    );
  });

  test(
    'WL-044 WL-116 the API exists because this context is secure, and adds two interfaces and one attribute only',
    async (t) => {
      t.equal(isSecureContext, true, 'isSecureContext');
      t.ok('locks' in navigator && 'LockManager' in globalThis && 'Lock' in globalThis, 'all three are there');
      t.same(
        Object.getOwnPropertyNames(globalThis).filter((name) => /^Lock/.test(name)),
        ['Lock', 'LockManager'].filter((name) => Object.hasOwn(globalThis, name)).sort(byGlobalOrder),
        'globals that begin with Lock',
      );
      function byGlobalOrder(a, b) {
        const names = Object.getOwnPropertyNames(globalThis);
        return names.indexOf(a) - names.indexOf(b);
      }
    },
    { realms: 'browser' },
  );

  test('WL-045 the getter gives the same LockManager each time', async (t) => {
    t.equal(t.locks, t.locks, 'locks');
    t.equal(Object.prototype.toString.call(t.locks), '[object LockManager]', 'class string');
    t.same(Reflect.ownKeys(t.locks), [], 'own keys of the manager');
  });

  test(
    'WL-045 another context has a LockManager of its own',
    async (t) => {
      const frame = document.createElement('iframe');
      frame.src = `/realm/window.html${location.search}`;
      document.body.append(frame);
      t.cleanup(() => frame.remove());
      await t.soon(new Promise((resolve) => frame.addEventListener('load', resolve)), 'the iframe to load');
      const other = frame.contentWindow;
      t.ok(other.navigator.locks !== navigator.locks, 'two managers');
      t.equal(Object.getPrototypeOf(other.navigator.locks), other.LockManager.prototype, 'manager of the iframe');
      t.ok(other.LockManager !== LockManager, 'two interfaces');
      const get = describe(Navigator.prototype, 'locks').get;
      t.equal(
        get.call(other.navigator),
        other.navigator.locks,
        'the getter of one realm on the navigator of the other',
      );
      const name = t.name();
      const held = await t.held(name);
      const waiting = other.navigator.locks.request(name, async (lock) => lock.name);
      await t.until(async () => (await t.modes(name)).pending.length === 1, 'the request of the other agent is queued');
      held.release();
      t.equal(await waiting, name, 'request of the other agent');
    },
    { realms: ['window'] },
  );

  test('WL-046 LockManager is an interface without a constructor', async (t) => {
    expectInterface(t, 'LockManager');
    t.equal(Object.getPrototypeOf(t.locks), LockManager.prototype, 'prototype of the manager');
    t.same(new Set(Reflect.ownKeys(LockManager.prototype)).size, 4, 'members of LockManager.prototype');
    for (const key of ['request', 'query', 'constructor', Symbol.toStringTag])
      t.ok(Object.hasOwn(LockManager.prototype, key), String(key));
  });

  test('WL-046 interface objects cannot be forged with Reflect.construct', async (t) => {
    for (const ctor of [LockManager, Lock]) t.throws(TypeError, () => Reflect.construct(ctor, [], Object), ctor.name);
  });

  test('WL-046 WL-050 request and query are enumerable methods of length 2 and 0 that cannot construct', async (t) => {
    const prototype = Object.getPrototypeOf(t.locks);
    for (const [name, length] of [
      ['request', 2],
      ['query', 0],
    ]) {
      const { value, ...flags } = describe(prototype, name);
      t.same(flags, { writable: true, enumerable: true, configurable: true }, name);
      t.equal(value.name, name, 'name');
      t.equal(value.length, length, `length of ${name}`);
      t.ok(!Object.hasOwn(value, 'prototype'), `${name} has no prototype`);
      t.throws(TypeError, () => new value('x', () => {}), `new ${name}()`);
    }
  });

  test('WL-046 WL-076 request and query return promises of this realm at once', async (t) => {
    const name = t.name();
    const requested = t.locks.request(name, () => 1);
    const queried = t.locks.query();
    t.equal(Object.getPrototypeOf(requested), Promise.prototype, 'request');
    t.equal(Object.getPrototypeOf(queried), Promise.prototype, 'query');
    t.equal(await requested, 1, 'result');
    await queried;
  });

  test('WL-046 a wrong this is a rejection with TypeError, never a throw', async (t) => {
    const { request, query } = Object.getPrototypeOf(t.locks);
    const strangers = [
      undefined,
      null,
      {},
      1,
      'x',
      Object.getPrototypeOf(t.locks),
      Object.create(t.locks),
      new Proxy(t.locks, {}),
    ];
    for (const stranger of strangers) {
      await t.rejects(
        request.call(stranger, t.name(), () => {}),
        TypeError,
        `request on ${typeof stranger}`,
      );
      await t.rejects(query.call(stranger), TypeError, `query on ${typeof stranger}`);
    }
  });

  test('WL-046 a wrong this is found before any argument is looked at', async (t) => {
    const { request } = Object.getPrototypeOf(t.locks);
    let touched = 0;
    const name = { toString: () => ++touched };
    const options = {
      get ifAvailable() {
        return ++touched;
      },
    };
    await t.rejects(
      request.call({}, name, options, () => {}),
      TypeError,
      'request',
    );
    t.equal(touched, 0, 'conversions');
  });

  test('WL-045 a patched request or query of the prototype is what the manager uses', async (t) => {
    t.equal(t.locks.request, Object.getPrototypeOf(t.locks).request, 'request is inherited');
    t.equal(t.locks.query, Object.getPrototypeOf(t.locks).query, 'query is inherited');
  });

  test('WL-078 Lock is an interface without a constructor', async (t) => {
    expectInterface(t, 'Lock');
    const lock = await t.locks.request(t.name(), (given) => given);
    t.equal(Object.getPrototypeOf(lock), Lock.prototype, 'prototype of a lock');
  });

  test('WL-078 name and mode of a lock are read-only and tell what was granted', async (t) => {
    for (const mode of ['exclusive', 'shared']) {
      const name = t.name(mode);
      await t.locks.request(name, { mode }, (lock) => {
        t.equal(Object.prototype.toString.call(lock), '[object Lock]', 'class string');
        t.equal(lock.name, name, 'name');
        t.equal(lock.mode, mode, 'mode');
        t.throws(
          TypeError,
          () => {
            lock.name = 'other';
          },
          'assignment to name',
        );
        t.throws(
          TypeError,
          () => {
            lock.mode = 'shared';
          },
          'assignment to mode',
        );
        t.same([lock.name, lock.mode], [name, mode], 'values after assignment');
        const prototype = Object.getPrototypeOf(lock);
        for (const key of ['name', 'mode'])
          expectAccessor(t, prototype, key, [undefined, null, {}, prototype, Object.create(lock), t.locks]);
      });
    }
  });

  test('WL-079 a lock offers no release, no client id and no state', async (t) => {
    const lock = await t.locks.request(t.name(), (given) => given);
    t.same(Reflect.ownKeys(lock), [], 'own keys');
    const keys = Reflect.ownKeys(Lock.prototype);
    for (const key of ['name', 'mode', 'constructor', Symbol.toStringTag])
      t.ok(keys.includes(key), `Lock.prototype has ${String(key)}`);
    for (const key of ['release', 'clientId', 'held', 'released', 'state'])
      t.ok(!(key in lock), `a lock has no ${key}`);
    if (surface.mode === 'native') t.equal(keys.length, 4, 'members of Lock.prototype');
  });

  test('WL-079 a kept lock is harmless after its release', async (t) => {
    const name = t.name();
    const lock = await t.locks.request(name, (given) => given);
    t.same([lock.name, lock.mode], [name, 'exclusive'], 'a kept lock');
    await t.expectModes(name, [], []);
  });

  test('WL-094 each grant has a lock object of its own', async (t) => {
    const name = t.name();
    const [first, second] = await Promise.all(
      [1, 2].map(() => t.locks.request(name, { mode: 'shared' }, (lock) => lock)),
    );
    t.ok(first !== second, 'two objects');
  });
})();
