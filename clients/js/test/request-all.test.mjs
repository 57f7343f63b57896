// The arguments of requestAll(), against a scripted server: what cannot be meant is refused, and nothing is
// asked for.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { open, turn } from './support/session.mjs';

const asked = ({ frames }) => frames.filter(({ type }) => type === 'request').map(({ name }) => name);

/** Grants the next request and gives its name. */
async function grantNext(server, seq) {
  const { id, name } = await server.next('request');
  server.send({ type: 'granted', seq, id, token: seq });
  return name;
}

describe('the targets of requestAll', () => {
  for (const [title, targets, shown] of [
    ['a string, though it is an iterable of letters', 'report', '"report"'],
    ['a number', 5, '5'],
    ['undefined', undefined, 'undefined'],
    ['one target', { name: 'a' }, '[object Object]'],
  ]) {
    test(`may not be ${title}`, async (t) => {
      const { server, locks } = await open(t);
      await assert.rejects(
        locks.requestAll(targets, () => assert.fail('called back')),
        {
          name: 'TypeError',
          message: `Failed to execute 'requestAll' on 'LockManager': parameter 1 is ${shown}, but it must be an iterable object of names, such as ["a", "b"].`,
        },
      );
      await turn();
      assert.deepEqual(asked(server), []);
    });
  }

  for (const [title, target, shown] of [
    ['without a name', { nmae: 'a' }, '[object Object]'],
    ['undefined', undefined, 'undefined'],
    ['a number', 7, '7'],
  ]) {
    test(`may not be ${title}`, async (t) => {
      const { server, locks } = await open(t);
      await assert.rejects(
        locks.requestAll(['a', target], () => assert.fail('called back')),
        {
          name: 'TypeError',
          message: `Failed to execute 'requestAll' on 'LockManager': a target is ${shown}, but it must be a name, or an object with one as its name.`,
        },
      );
      await turn();
      assert.deepEqual(asked(server), []);
    });
  }

  test('may be any iterable object', async (t) => {
    const { server, locks } = await open(t);
    const all = locks.requestAll(new Set(['b', 'a']), (given) => given.map(({ name }) => name));
    assert.equal(await grantNext(server, 1), 'a');
    assert.equal(await grantNext(server, 2), 'b');
    assert.deepEqual(await all, ['a', 'b']);
  });
});

describe('the other arguments of requestAll', () => {
  const failed = (what) => ({ name: 'TypeError', message: `Failed to execute 'requestAll' on 'LockManager': ${what}` });
  const callback = () => assert.fail('called back');
  const unknown = (name, rule) => failed(`${name} is unknown, but ${rule}`);
  const OPTIONS = 'an option must be one of mode, ifAvailable, steal, signal, maxHold, metadata, timeout';
  const MODE = "Failed to read the 'mode' property from 'LockOptions':";

  for (const [title, args, error] of [
    ['no callback', [['a']], failed('2 arguments required, but only 1 present.')],
    ['no arguments', [], failed('2 arguments required, but only 0 present.')],
    ['a second of two that is no function', [['a'], {}], failed("parameter 2 is not of type 'Function'.")],
    ['undefined for a callback', [['a'], callback, undefined], failed('options: a function, but it must be an object')],
    ['undefined for the last of three', [['a'], {}, undefined], failed("parameter 3 is not of type 'Function'.")],
    ['a callback in the fourth place', [['a'], {}, {}, callback], failed("parameter 3 is not of type 'Function'.")],
    ['options of no type', [['a'], 5, callback], failed('options: 5, but it must be an object')],
    ['options of null', [['a'], null, callback], failed('options: null, but it must be an object')],
    ['an unknown option', [['a'], { ifavailable: true }, callback], unknown('ifavailable', OPTIONS)],
    ['an option of null', [['a'], { steal: null }, callback], failed('steal: null, but it must be true or false')],
    [
      'a text as a flag',
      [['a'], { ifAvailable: 'no' }, callback],
      failed('ifAvailable: "no", but it must be true or false'),
    ],
    [
      'an unknown member of a target',
      [[{ name: 'a', shared: true }], callback],
      unknown('shared', 'a member of a target must be one of name, mode'),
    ],
    [
      'an unknown mode',
      [['a'], { mode: 'x' }, callback],
      failed(`${MODE} The provided value 'x' is not a valid enum value of type LockMode.`),
    ],
    [
      'an unknown mode of a target',
      [[{ name: 'a', mode: 'x' }], callback],
      failed(`${MODE} The provided value 'x' is not a valid enum value of type LockMode.`),
    ],
    [
      'a timeout below 0',
      [['a'], { timeout: -1 }, callback],
      { name: 'TypeError', message: /'requestAll'.*'timeout'/ },
    ],
    ['a signal of no type', [['a'], { signal: 1 }, callback], { name: 'TypeError', message: /'requestAll'.*'signal'/ }],
    ['a reserved name', [['-a'], callback], { name: 'NotSupportedError', message: /'requestAll'.*'-'/ }],
  ]) {
    test(`${title}: the error names requestAll, and nothing is asked for`, async (t) => {
      const { server, locks } = await open(t);
      await assert.rejects(locks.requestAll(...args), error);
      await turn();
      assert.deepEqual(asked(server), []);
    });
  }

  test('are told apart by their count, and further ones are ignored', async (t) => {
    const { server, locks } = await open(t);
    const all = locks.requestAll(['a'], { mode: 'shared' }, (given) => given[0].mode, callback);
    assert.equal(await grantNext(server, 1), 'a');
    assert.equal(await all, 'shared');
  });
});

describe('a lock of requestAll that is lost while a later one is waited for', () => {
  const PATIENCE = { timeout: 2_000 };

  /** Has every request but the last granted; gives the requests in their order. */
  async function waitForTheLast(server, count) {
    const requests = [];
    for (let seq = 1; seq <= count; seq++) {
      const request = await server.next('request');
      requests.push(request);
      if (seq < count) server.send({ type: 'granted', seq, id: request.id, token: seq });
    }
    return requests;
  }
  const callback = () => assert.fail('called back without all locks');

  for (const lost of [0, 1]) {
    test(`is the failure, and the wait is withdrawn (lock ${lost + 1} of 3)`, PATIENCE, async (t) => {
      const { server, locks } = await open(t);
      const all = locks.requestAll(['a', 'b', 'c'], callback);
      const requests = await waitForTheLast(server, 3);
      server.send({ type: 'lost', seq: 3, id: requests[lost].id, reason: 'stolen' });
      await assert.rejects(all, { name: 'AbortError', reason: 'stolen' });
      const other = requests[1 - lost];
      assert.equal((await server.next('abort')).id, requests[2].id);
      assert.equal((await server.next('release')).id, other.id);
    });
  }

  test('is not made good by a grant that crosses the withdrawal', PATIENCE, async (t) => {
    const { server, locks } = await open(t);
    const all = locks.requestAll(['a', 'b'], callback);
    const [a, b] = await waitForTheLast(server, 2);
    server.send({ type: 'lost', seq: 2, id: a.id, reason: 'stolen' });
    server.send({ type: 'granted', seq: 3, id: b.id, token: 2 });
    await assert.rejects(all, { name: 'AbortError', reason: 'stolen' });
    assert.equal((await server.next('abort')).id, b.id);
    assert.equal((await server.next('release')).id, b.id);
  });

  test('is lost with the session, too, and the wait is not asked anew in the next', PATIENCE, async (t) => {
    const { peer, server, locks } = await open(t);
    const all = locks.requestAll(['a', 'b'], callback);
    await waitForTheLast(server, 2);
    const later = locks.request('later', () => 'granted');
    server.cut();
    const next = await peer.connection();
    next.welcome({ session: 's2' });
    await assert.rejects(all, { name: 'AbortError', reason: 'terminated' });
    await next.next('join');
    assert.equal((await next.next('request')).name, 'later');
    later.catch(() => {});
  });
});

describe('a lock of requestAll that is lost while the callback runs', () => {
  const NAMES = ['a', 'b', 'c'];

  for (const lost of [0, 1, 2]) {
    test(`aborts the signals of all, and the others are held until the callback ends (lock ${lost + 1} of 3)`, async (t) => {
      const { server, locks } = await open(t);
      let end;
      let given;
      const all = locks.requestAll(NAMES, (each) => {
        given = each;
        return new Promise((resolve) => (end = resolve));
      });
      const ids = [];
      for (let seq = 1; seq <= 3; seq++) {
        const { id } = await server.next('request');
        ids.push(id);
        server.send({ type: 'granted', seq, id, token: seq });
      }
      await turn();
      const aborted = [];
      given.forEach(({ name, signal }, index) => {
        if (index < 2) signal.addEventListener('abort', () => aborted.push(name));
      });
      server.send({ type: 'lost', seq: 4, id: ids[lost], reason: 'stolen' });
      await assert.rejects(all, { name: 'AbortError', reason: 'stolen' });
      await turn();
      assert.deepEqual(aborted.sort(), ['a', 'b']);
      assert.deepEqual(
        given.map(({ signal }) => signal.reason?.reason),
        ['stolen', 'stolen', 'stolen'],
      );
      const others = [0, 1, 2].filter((index) => index !== lost);
      assert.deepEqual(
        others.map((index) => given[index].fencingToken),
        others.map((index) => index + 1),
      );
      assert.throws(() => given[lost].fencingToken, { name: 'AbortError', reason: 'stolen' });
      const released = () => server.frames.filter(({ type }) => type === 'release').map(({ id }) => id);
      assert.deepEqual(released(), [], 'while the callback runs');
      end();
      await turn();
      assert.deepEqual(
        released().sort(),
        others.map((index) => ids[index]),
      );
    });
  }
});
