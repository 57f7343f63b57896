// The checks of request() in the order of the specification (3.2.1, steps 3 to 9).
(() => {
  'use strict';
  const { test } = surface;
  const nothing = () => {};

  test('WL-014 WL-065 a name that begins with a hyphen is a NotSupportedError', async (t) => {
    for (const name of ['-', '-x', '--', '-\0', { toString: () => '-object' }, -1]) {
      const error = await t.rejects(t.locks.request(name, nothing), 'NotSupportedError', String(name));
      t.equal(error.code, 9, 'legacy code');
      t.ok(error.message.length > 0, 'the error says something');
    }
  });

  test('WL-014 only U+002D in the first place is reserved', async (t) => {
    for (const name of ['a-', '\u2010', '\u2212', '\uff0d', ' -', '\0-']) {
      t.equal(await t.locks.request(name, (lock) => lock.name), name, t.show(name));
    }
  });

  test('WL-065 the reserved name wins over an aborted signal', async (t) => {
    await t.rejects(t.locks.request('-x', { signal: AbortSignal.abort('reason') }, nothing), 'NotSupportedError', '-x');
  });

  test('WL-066 steal with ifAvailable is a NotSupportedError', async (t) => {
    await t.rejects(
      t.locks.request(t.name(), { steal: true, ifAvailable: true }, nothing),
      'NotSupportedError',
      'both',
    );
  });

  test('WL-067 steal with the shared mode is a NotSupportedError', async (t) => {
    await t.rejects(
      t.locks.request(t.name(), { steal: true, mode: 'shared' }, nothing),
      'NotSupportedError',
      'steal and shared',
    );
    const signal = AbortSignal.abort('reason');
    await t.rejects(
      t.locks.request(t.name(), { steal: true, mode: 'shared', signal }, nothing),
      'NotSupportedError',
      'and an aborted signal',
    );
  });

  test('WL-068 a signal with steal or ifAvailable is a NotSupportedError, aborted or not', async (t) => {
    for (const signal of [new AbortController().signal, AbortSignal.abort('reason')]) {
      for (const option of ['steal', 'ifAvailable']) {
        await t.rejects(t.locks.request(t.name(), { [option]: true, signal }, nothing), 'NotSupportedError', option);
      }
    }
  });

  test('WL-069 WL-057 an aborted signal rejects with its reason by identity', async (t) => {
    for (const reason of [new Error('mine'), { plain: 'object' }, 'text', 0, null, false, '', Symbol('s')]) {
      await t.rejects(
        t.locks.request(t.name(), { signal: AbortSignal.abort(reason) }, nothing),
        { is: reason },
        t.show(reason),
      );
    }
    const signal = AbortSignal.abort();
    await t.rejects(t.locks.request(t.name(), { signal }, nothing), { is: signal.reason }, 'default reason');
    t.equal(signal.reason.name, 'AbortError', 'name of the default reason');
  });

  test('WL-070 a failing call never runs its callback and leaves no trace in the manager', async (t) => {
    const name = t.name();
    const held = await t.held(name);
    const before = await t.modes(name);
    let called = 0;
    const callback = () => called++;
    const signal = AbortSignal.abort('reason');
    const outcomes = await Promise.allSettled([
      t.locks.request(name, { mode: 'none' }, callback),
      t.locks.request(name, { steal: true, ifAvailable: true }, callback),
      t.locks.request(name, { steal: true, mode: 'shared' }, callback),
      t.locks.request(name, { steal: true, signal }, callback),
      t.locks.request(name, { signal }, callback),
      t.locks.request(`-${name}`, callback),
    ]);
    t.same(
      outcomes.map((each) => each.status),
      Array(6).fill('rejected'),
      'outcomes',
    );
    t.same(await t.modes(name), before, 'snapshot');
    held.release();
    await held.released;
    t.equal(called, 0, 'callbacks');
  });

  test('WL-070 a refusal is known in the same turn, before any message could have come', async (t) => {
    const log = [];
    const refused = t.locks.request('-x', nothing).catch(() => log.push('refused'));
    const later = t.turn().then(() => log.push('next task'));
    await Promise.all([refused, later]);
    t.same(log, ['refused', 'next task'], 'order');
  });
})();
