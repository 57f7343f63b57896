// What the arguments of request() are turned into, and in which order (Web IDL's rules for overloads,
// dictionaries and callbacks).
(() => {
  'use strict';
  const { test } = surface;

  /** Options whose members note when they are read and converted. */
  function loggedOptions(log, values = {}, thrower = undefined) {
    const options = {};
    for (const key of ['steal', 'signal', 'mode', 'ifAvailable']) {
      Object.defineProperty(options, key, {
        enumerable: true,
        get() {
          log.push(key);
          if (key === thrower?.at) throw thrower.error;
          return key === 'mode'
            ? { toString: () => (log.push('mode to string'), values.mode ?? 'exclusive') }
            : values[key];
        },
      });
    }
    return options;
  }

  const loggedName = (log, name) => ({ toString: () => (log.push('name'), name) });

  test('WL-050 fewer than two arguments are refused before any conversion', async (t) => {
    const log = [];
    await t.rejects(t.locks.request(), TypeError, 'no argument');
    await t.rejects(t.locks.request(loggedName(log, t.name())), TypeError, 'one argument');
    t.same(log, [], 'conversions');
  });

  test('WL-050 the callback is the last of two or of three arguments', async (t) => {
    const name = t.name();
    t.equal(await t.locks.request(name, () => 'two'), 'two', 'two arguments');
    t.equal(await t.locks.request(name, {}, () => 'three'), 'three', 'three arguments');
    t.equal(await t.locks.request(name, {}, () => 'more', 'ignored', 5), 'more', 'five arguments');
    await t.rejects(t.locks.request(name, {}), TypeError, 'options without a callback');
  });

  test('WL-050 a third argument of undefined still stands for the callback', async (t) => {
    let called = false;
    await t.rejects(
      t.locks.request(
        t.name(),
        () => {
          called = true;
        },
        undefined,
      ),
      TypeError,
      'request(name, callback, undefined)',
    );
    t.ok(!called, 'the callback was not called');
  });

  test('WL-048 WL-062 options of undefined or null are the defaults', async (t) => {
    const name = t.name();
    for (const options of [undefined, null, {}, () => {}, []]) {
      t.equal(await t.locks.request(name, options, (lock) => lock.mode), 'exclusive', `options ${t.show(options)}`);
    }
  });

  test('WL-048 options that are a primitive are a TypeError', async (t) => {
    for (const options of [0, 5, 'x', '', true, false, 1n, Symbol('s')]) {
      await t.rejects(
        t.locks.request(t.name(), options, () => {}),
        TypeError,
        `options ${String(options)}`,
      );
    }
  });

  test('WL-012 the name is converted to a string', async (t) => {
    const named = (value) => t.locks.request(value, (lock) => lock.name);
    t.equal(await named(1.5), '1.5', 'number');
    t.equal(await named(undefined), 'undefined', 'undefined');
    t.equal(await named(null), 'null', 'null');
    t.equal(await named(true), 'true', 'boolean');
    t.equal(await named({ toString: () => t.name('object') }), t.name('object'), 'object');
    t.equal(await named([t.name('a'), 'b']), `${t.name('a')},b`, 'array');
    t.equal(await named({ [Symbol.toPrimitive]: (hint) => t.name(hint) }), t.name('string'), 'hint of the conversion');
  });

  test('WL-012 a name that has no string is a rejection', async (t) => {
    await t.rejects(
      t.locks.request(Symbol('s'), () => {}),
      TypeError,
      'symbol',
    );
    await t.rejects(
      t.locks.request(Object.create(null), () => {}),
      TypeError,
      'object without toString',
    );
    const error = new RangeError('mine');
    await t.rejects(
      t.locks.request(
        {
          toString() {
            throw error;
          },
        },
        () => {},
      ),
      { is: error },
      'toString that throws',
    );
  });

  test('WL-048 WL-050 conversions run in the order name, ifAvailable, mode, signal, steal, callback', async (t) => {
    const log = [];
    const name = t.name();
    await t.locks.request(loggedName(log, name), loggedOptions(log), () => log.push('callback'));
    t.same(log, ['name', 'ifAvailable', 'mode', 'mode to string', 'signal', 'steal', 'callback'], 'order');
  });

  test('WL-048 each option is read once, also through the prototype chain', async (t) => {
    const log = [];
    const inherited = Object.create(loggedOptions(log, { mode: 'shared' }));
    t.equal(await t.locks.request(t.name(), inherited, (lock) => lock.mode), 'shared', 'mode from the prototype');
    t.same(log, ['ifAvailable', 'mode', 'mode to string', 'signal', 'steal'], 'reads');
  });

  test('WL-048 a getter that throws ends the conversions there and rejects with its error', async (t) => {
    const error = new RangeError('mine');
    const order = ['ifAvailable', 'mode', 'signal', 'steal'];
    for (const [index, at] of order.entries()) {
      const log = [];
      await t.rejects(
        t.locks.request(t.name(), loggedOptions(log, {}, { at, error }), 'no callback'),
        { is: error },
        at,
      );
      t.same(
        log.filter((entry) => entry !== 'mode to string'),
        order.slice(0, index + 1),
        `reads up to ${at}`,
      );
    }
  });

  test('WL-050 a callback that cannot be called is a TypeError, found after the options', async (t) => {
    for (const callback of [undefined, null, 5, 'f', {}, [], /x/, Symbol('s')]) {
      const log = [];
      await t.rejects(t.locks.request(t.name(), loggedOptions(log), callback), TypeError, String(callback));
      t.equal(log.at(-1), 'steal', 'the options were converted first');
      await t.rejects(t.locks.request(t.name(), callback), TypeError, `two arguments, ${String(callback)}`);
    }
  });

  test('WL-020 WL-048 an unknown mode is a TypeError, undefined is the default', async (t) => {
    for (const mode of ['', 'EXCLUSIVE', 'Shared', 'exclusive ', null, 0, {}, Symbol('s')]) {
      await t.rejects(
        t.locks.request(t.name(), { mode }, () => {}),
        TypeError,
        `mode ${String(mode)}`,
      );
    }
    t.equal(await t.locks.request(t.name(), { mode: undefined }, (lock) => lock.mode), 'exclusive', 'undefined');
    t.equal(
      await t.locks.request(t.name(), { mode: new String('shared') }, (lock) => lock.mode),
      'shared',
      'String object',
    );
  });

  test('WL-020 a bad mode is found before every check of the specification', async (t) => {
    const signal = AbortSignal.abort('reason');
    await t.rejects(
      t.locks.request('-x', { mode: 'none', signal, steal: true, ifAvailable: true }, () => {}),
      TypeError,
      'bad mode',
    );
    await t.rejects(t.locks.request('-x', { signal, steal: true, ifAvailable: true }, null), TypeError, 'no callback');
  });

  test('WL-048 ifAvailable and steal are converted by truthiness', async (t) => {
    const name = t.name();
    const held = await t.held(name);
    for (const ifAvailable of [true, 1, 'false', {}, [], Symbol('s'), 1n, new Boolean(false)]) {
      t.equal(await t.locks.request(name, { ifAvailable }, (lock) => lock), null, `ifAvailable ${String(ifAvailable)}`);
    }
    for (const falsy of [false, 0, '', null, NaN, 0n, undefined]) {
      const waiting = t.locks.request(name, { ifAvailable: falsy, steal: falsy }, (lock) => lock.name);
      await t.expectModes(name, ['exclusive'], ['exclusive'], `${String(falsy)} waits`);
      await swap(t, held, name, waiting);
    }
    const thief = await t.held(name, { steal: 'yes' });
    t.equal(thief.lock.name, name, 'steal by a truthy word');
  });

  /** Lets the waiter run and takes the lock again. */
  async function swap(t, held, name, waiting) {
    held.release();
    t.equal(await waiting, name, 'the waiter');
    Object.assign(held, await t.held(name));
  }

  test('WL-048 a signal must be an AbortSignal', async (t) => {
    const proxy = new Proxy(new AbortController().signal, {});
    for (const signal of [
      null,
      {},
      1,
      'x',
      new EventTarget(),
      new AbortController(),
      Object.create(AbortSignal.prototype),
      AbortSignal.prototype,
      proxy,
    ]) {
      await t.rejects(
        t.locks.request(t.name(), { signal }, () => {}),
        TypeError,
        Object.prototype.toString.call(signal),
      );
    }
    t.equal(await t.locks.request(t.name(), { signal: undefined }, () => 1), 1, 'undefined is absent');
    t.equal(await t.locks.request(t.name(), { signal: AbortSignal.timeout(60_000) }, () => 2), 2, 'a timeout signal');
    t.equal(
      await t.locks.request(t.name(), { signal: AbortSignal.any([new AbortController().signal]) }, () => 3),
      3,
      'a composed signal',
    );
  });

  test(
    'WL-048 WL-057 a signal of another realm aborts like one of this realm',
    async (t) => {
      const frame = document.createElement('iframe');
      document.body.append(frame);
      t.cleanup(() => frame.remove());
      const controller = new frame.contentWindow.AbortController();
      const name = t.name();
      const held = await t.held(name);
      const waiting = t.locks.request(name, { signal: controller.signal }, () => {});
      await t.expectModes(name, ['exclusive'], ['exclusive']);
      const reason = { mine: true };
      controller.abort(reason);
      await t.rejects(waiting, { is: reason }, 'aborted from the other realm');
      await t.expectModes(name, ['exclusive'], []);
      held.release();
    },
    { realms: ['window', 'iframe', 'popup'] },
  );

  test('WL-047 WL-098 the callback gets one argument, the lock, and no this', async (t) => {
    const seen = await t.locks.request(t.name(), function () {
      return { args: arguments.length, lock: arguments[0], self: this };
    });
    t.equal(seen.args, 1, 'arguments');
    t.equal(Object.prototype.toString.call(seen.lock), '[object Lock]', 'the argument');
    t.equal(seen.self, undefined, 'this');
  });

  test('WL-047 WL-053 any callable is a callback, and a class is called without new', async (t) => {
    const name = t.name();
    t.equal(await t.locks.request(name, new Proxy(() => 'proxy', {})), 'proxy', 'proxy');
    t.equal(await t.locks.request(name, (() => 'bound').bind(null)), 'bound', 'bound function');
    t.equal(await t.locks.request(name, async () => 'async'), 'async', 'async function');
    await t.rejects(t.locks.request(name, class {}), TypeError, 'class');
    await t.expectModes(name, [], []);
  });
})();
