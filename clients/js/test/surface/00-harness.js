// The smallest test harness that loads everywhere: as a classic script, by importScripts, and as a module run
// for its effects. It expects `surfaceConfig = { realm, mode, url }` on the global and leaves `surface`
// there.
(() => {
  'use strict';
  const DEADLINE_MS = 5000;
  const config = globalThis.surfaceConfig;
  const tests = [];
  const unhandled = [];
  let count = 0;

  const show = (value) => {
    if (typeof value === 'string') return JSON.stringify(value);
    if (typeof value === 'symbol' || typeof value === 'function' || value === undefined) return String(value);
    if (value === null || typeof value !== 'object') return Object.is(value, -0) ? '-0' : String(value);
    if (value instanceof Error || Object.prototype.toString.call(value) === '[object DOMException]')
      return `${value.name}: ${value.message}`;
    if (Array.isArray(value)) return `[${value.map(show).join(', ')}]`;
    return `{${Reflect.ownKeys(value)
      .map((key) => `${String(key)}: ${show(value[key])}`)
      .join(', ')}}`;
  };

  function fail(message) {
    throw new Error(message);
  }

  const assert = {
    ok(value, what) {
      if (!value) fail(`${what}: got ${show(value)}`);
    },
    equal(actual, expected, what = 'value') {
      if (!Object.is(actual, expected)) fail(`${what}: expected ${show(expected)}, got ${show(actual)}`);
    },
    // Structural equality, the order of keys included.
    same(actual, expected, what = 'value') {
      if (show(actual) !== show(expected)) fail(`${what}: expected ${show(expected)}, got ${show(actual)}`);
    },
    throws(kind, run, what = 'call') {
      let result;
      try {
        result = run();
      } catch (error) {
        matchError(error, kind, what);
        return error;
      }
      return fail(`${what}: expected a throw, got ${show(result)}`);
    },
    // `kind` is a constructor, a DOMException name, or { is: value } for identity.
    async rejects(promise, kind, what = 'promise') {
      assert.ok(promise instanceof Promise, `${what} is a promise of this realm`);
      const outcome = await soon(settle(promise), `${what} to settle`);
      if (outcome.state === 'fulfilled') fail(`${what}: expected a rejection, got ${show(outcome.value)}`);
      matchError(outcome.reason, kind, what);
      return outcome.reason;
    },
  };

  function matchError(error, kind, what) {
    if (typeof kind === 'function') {
      assert.ok(error instanceof kind, `${what}: a ${kind.name} of this realm, not ${show(error)}`);
    } else if (typeof kind === 'string') {
      assert.ok(error instanceof DOMException, `${what}: a DOMException, not ${show(error)}`);
      assert.equal(error.name, kind, `${what}: name of the DOMException`);
    } else {
      assert.equal(error, kind.is, what);
    }
  }

  const settle = (promise) =>
    promise.then(
      (value) => ({ state: 'fulfilled', value }),
      (reason) => ({ state: 'rejected', reason }),
    );

  function defer() {
    const deferred = {};
    deferred.promise = new Promise((resolve, reject) => Object.assign(deferred, { resolve, reject }));
    return deferred;
  }

  /** The promise's result, or an error that says what was awaited in vain. */
  function soon(promise, what, ms = DEADLINE_MS) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`waited ${ms} ms in vain for ${what}`)), ms);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
  }

  /** One turn of the event loop, by a message: timers are clamped and throttled. */
  function turn() {
    return new Promise((resolve) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        port1.close();
        resolve();
      };
      port2.postMessage(null);
    });
  }

  async function microtasks(n) {
    for (let i = 0; i < n; i++) await null;
  }

  async function until(condition, what, ms = DEADLINE_MS) {
    const end = performance.now() + ms;
    for (;;) {
      const value = await condition();
      if (value) return value;
      if (performance.now() > end) fail(`waited ${ms} ms in vain until ${what}`);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }

  class Context {
    #prefix;
    #cleanups = [];

    constructor(index) {
      this.#prefix = `${config.realm}:${index}:`;
      Object.assign(this, assert, { assert, defer, settle, soon, turn, microtasks, until, show });
    }

    get locks() {
      return navigator.locks;
    }

    /** A name that no other test and no other realm uses. */
    name(suffix = 'x') {
      return `${this.#prefix}${suffix}`;
    }

    cleanup(run) {
      this.#cleanups.push(run);
    }

    /** Asks for a lock that is held until `release`, `fail` or the end of the test. */
    hold(name, options = {}) {
      const started = defer();
      const ended = defer();
      const held = { lock: undefined, release: ended.resolve, fail: ended.reject };
      held.released = this.locks.request(name, options, (lock) => {
        held.lock = lock;
        started.resolve(lock);
        return ended.promise;
      });
      held.granted = soon(
        Promise.race([started.promise, held.released.then(() => started.promise)]),
        `the grant of ${show(name)}`,
      );
      held.granted.catch(() => {});
      held.released.catch(() => {});
      this.cleanup(() => ended.resolve());
      return held;
    }

    async held(name, options) {
      const held = this.hold(name, options);
      await held.granted;
      return held;
    }

    /** The snapshot's entries of one name, as `{ held: [mode…], pending: [mode…] }`. */
    async modes(name) {
      const { held, pending } = await this.entries(name);
      return { held: held.map((entry) => entry.mode), pending: pending.map((entry) => entry.mode) };
    }

    async entries(name) {
      const snapshot = await soon(this.locks.query(), 'the answer of query()');
      const ofName = (list) => list.filter((entry) => entry.name === name);
      return { held: ofName(snapshot.held), pending: ofName(snapshot.pending) };
    }

    async expectModes(name, held, pending, what = name) {
      this.same(await this.modes(name), { held, pending }, what);
    }

    async finish() {
      for (const run of this.#cleanups.reverse()) await run();
      await until(async () => {
        const { held, pending } = await this.locks.query();
        return [...held, ...pending].every((entry) => !entry.name.startsWith(this.#prefix));
      }, `nothing of ${this.#prefix} is held or pending after the test`);
    }
  }

  if (globalThis.process?.versions?.node) {
    process.on('unhandledRejection', (reason, promise) => unhandled.push({ reason, promise }));
  } else {
    addEventListener('unhandledrejection', (event) => {
      event.preventDefault();
      unhandled.push({ reason: event.reason, promise: event.promise });
    });
  }

  function applies({ realms, mode }) {
    const group = config.realm.startsWith('node') ? 'node' : 'browser';
    return (!realms || realms.includes(config.realm) || realms.includes(group)) && (!mode || mode === config.mode);
  }

  async function run(title) {
    const found = tests.find((each) => each.title === title) ?? fail(`no test ${title}`);
    const context = new Context(count++);
    context.unhandled = unhandled;
    unhandled.length = 0;
    const errors = [];
    await soon(Promise.resolve(found.body(context)), 'the test to end', 20_000).catch((error) => errors.push(error));
    await soon(context.finish(), 'the test to clean up', 10_000).catch((error) => errors.push(error));
    await turn();
    for (const { reason } of unhandled) errors.push(new Error(`unhandled rejection: ${show(reason)}`));
    return errors.map((error) => (error instanceof Error ? `${error.message}\n${error.stack}` : show(error)));
  }

  globalThis.surface = {
    mode: config.mode,
    realm: config.realm,
    url: config.url,
    /** Options: `realms` (names of realms, or 'browser' or 'node'), `mode` ('native' or 'lockhouse'). */
    test(title, body, options = {}) {
      if (tests.some((each) => each.title === title)) fail(`two tests are called ${title}`);
      if (applies(options)) tests.push({ title, body });
    },
    titles: () => tests.map((each) => each.title),
    run,
    /** Answers { id, call, title } on the given message target; workers of every kind speak this. */
    async serve(message, port) {
      const { call, title } = message;
      const result = call === 'titles' ? surface.titles() : await run(title);
      port.postMessage(result);
    },
  };
})();
