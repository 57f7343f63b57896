// A remote-controlled user of the locks of its realm. Loads as a classic script, by importScripts and as a
// module run for its effects. Every call takes and gives plain data, so that a test can drive any number of
// agents in pages, workers and processes alike.
(() => {
  'use strict';
  const asked = new Map();
  const locks = () => globalThis.agentLocks?.() ?? navigator.locks;

  function note(entry, event, detail) {
    entry.events.push(detail === undefined ? event : `${event}: ${detail}`);
    entry.times.set(event, Date.now());
    for (const waiter of entry.waiters.splice(0)) waiter();
  }

  const shown = (error) => (error?.name ? `${error.name} ${error.message}` : String(error));

  globalThis.agent = {
    /** Asks for `name`; the callback ends by `release`. `abortable` adds a signal for `abort`. */
    ask(label, name, wanted) {
      const { abortable = false, ...options } = wanted ?? {};
      const entry = { events: [], times: new Map(), waiters: [], controller: new AbortController() };
      entry.ended = new Promise((resolve) => (entry.release = resolve));
      asked.set(label, entry);
      if (abortable) options.signal = entry.controller.signal;
      const callback = (lock) => {
        entry.lock = lock;
        note(entry, lock === null ? 'unavailable' : 'granted');
        lock?.signal?.addEventListener('abort', () => note(entry, 'lost', shown(lock.signal.reason)));
        return entry.ended;
      };
      locks()
        .request(name, options, callback)
        .then(
          (value) => note(entry, 'resolved', value === undefined ? undefined : String(value)),
          (error) => note(entry, 'rejected', shown(error)),
        );
    },
    /** Waits until the request has had the event (`granted`, `unavailable`, `resolved`, `rejected`, `lost`). */
    async wait(label, event, ms = 5000) {
      const entry = asked.get(label);
      const seen = () => entry.events.some((each) => each.split(':')[0] === event);
      let late = false;
      const timer = setTimeout(() => {
        late = true;
        for (const waiter of entry.waiters.splice(0)) waiter();
      }, ms);
      while (!seen() && !late) await new Promise((resolve) => entry.waiters.push(resolve));
      clearTimeout(timer);
      if (!seen())
        throw new Error(
          `${label}: waited ${ms} ms in vain for ${event}; so far: ${entry.events.join(', ') || 'nothing'}`,
        );
      return entry.events.find((each) => each.split(':')[0] === event);
    },
    release: (label, value) => asked.get(label).release(value),
    abort: (label, reason) => asked.get(label).controller.abort(reason),
    events: (label) => asked.get(label).events,
    time: (label, event) => asked.get(label).times.get(event),
    /** The fencing token; also of a lock that `navigator.locks` gave, which does not show it. */
    token(label) {
      const { lock } = asked.get(label);
      return (globalThis.lockhouse?.heldLock(lock) ?? lock).fencingToken;
    },
    /** Waits, holds no longer, and returns the result. */
    async visit(name, options = {}) {
      return locks().request(name, options, (lock) => lock !== null);
    },
    throwInside: (name) =>
      locks()
        .request(name, () => {
          throw new Error('inside');
        })
        .catch((error) => error.message),
    async query(name) {
      const { held, pending } = await locks().query();
      const ofName = (list) => list.filter((entry) => name === undefined || entry.name === name);
      return { held: ofName(held), pending: ofName(pending) };
    },
    async modes(name) {
      const { held, pending } = await agent.query(name);
      return { held: held.map((entry) => entry.mode), pending: pending.map((entry) => entry.mode) };
    },
    /** Milliseconds for `rounds` requests one after another. */
    async time_pairs(name, rounds) {
      const start = performance.now();
      for (let round = 0; round < rounds; round++) await locks().request(name, () => {});
      return performance.now() - start;
    },
    /** A little of everything that offline locks and claims do; gives what it came to. */
    async edit(name) {
      const { offline, claims } = globalThis.installed;
      const record = { kind: 'customer', id: 'a tab', intent: 'write' };
      const anna = await offline.open({ label: 'Anna' });
      const bob = await offline.open({ label: 'Bob' });
      const [grant] = await anna.lock([record]);
      const refused = await bob.lock([record]).catch((error) => `${error.name}: ${error.holders[0].label}`);
      const again = await offline.resume(anna.id, anna.secret);
      const resumed = (await again.locks()).length;
      const claim = await claims.claim(name, { claimant: 'Anna' });
      const { claimant } = await claim.finalize();
      await again.end();
      await bob.end();
      return { granted: grant.mode, refused, resumed, claimed: claim.resource === name, assigned: claimant };
    },
    /** Takes `count` names at once and keeps them for ever; with `queued`, asks for each once more. */
    async crowd(prefix, count, queued) {
      const granted = [];
      for (let index = 0; index < count; index++) {
        granted.push(
          new Promise((resolve) => {
            locks()
              .request(`${prefix}${index}`, () => (resolve(), new Promise(() => {})))
              .catch(() => {});
          }),
        );
        if (queued)
          locks()
            .request(`${prefix}${index}`, () => {})
            .catch(() => {});
      }
      await Promise.all(granted);
    },
    /** Locks and releases `count` names, each once. */
    async unique(prefix, count) {
      for (let index = 0; index < count; index += 500) {
        await Promise.all(
          Array.from({ length: Math.min(500, count - index) }, (_, each) =>
            locks().request(`${prefix}${index + each}`, () => {}),
          ),
        );
      }
    },
  };

  /** Answers { method, args } on the given port. */
  globalThis.serveAgent = async ({ method, args }, port) => {
    try {
      port.postMessage({ value: await agent[method](...args) });
    } catch (error) {
      port.postMessage({ error: shown(error) });
    }
  };
})();
