// Owners of offline locks against a scripted server: their calls, their heartbeats, and the deadline that
// holds without any.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { inspect } from 'node:util';
import { UnknownOwnerError } from '../dist/lockhouse.js';
import { clock, scriptedApi } from './support/api.mjs';

const START = Date.parse('2026-11-20T12:00:00.000Z');
const at = (ms) => new Date(START + ms).toISOString();
const elapse = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The server's answer that begins or describes an owner. */
const ownerBody = ({ ttlMs = 600_000, ...fields } = {}) => ({
  owner: '17',
  label: 'Anna',
  ttlMs,
  expiresAt: at(ttlMs),
  ...fields,
});

/** A lock as the server reports it, and as the client reads that. */
const heldBy = (owner, id) => ({
  kind: 'customer',
  id,
  name: `customer/${id}`,
  mode: 'exclusive',
  owner,
  label: 'Anna',
  since: at(0),
  expiresAt: at(600_000),
  fencingToken: 3,
  metadata: null,
});
const read = ({ metadata, ...lock }) => ({ ...lock, since: new Date(lock.since), expiresAt: new Date(lock.expiresAt) });

/** An owner of a scripted server; heartbeats are off unless asked for. */
async function open(t, { ttlMs, answer, ...options } = {}) {
  const api = await scriptedApi(t);
  const opening = api.client.offline.open({ label: 'Anna', heartbeats: false, ttlMs, ...options });
  const call = await api.next('POST', 'owners');
  call.reply(201, { ...ownerBody({ ttlMs }), ownerSecret: 's3cret', ...answer });
  return { ...api, call, owner: await opening };
}

/** What is answered where a record is locked for reading. */
const GRANT = { kind: 'a', id: '1', intent: 'read', name: 'a/1', mode: 'shared', fencingToken: 7, how: 'fresh' };

describe('an owner', () => {
  test('is opened with what the options say, and knows what the server told', async (t) => {
    const { owner, call } = await open(t, { ttlMs: 60_000, maxMs: 900_000, metadata: 'desk 4' });
    assert.deepEqual(call.body, { label: 'Anna', ttlMs: 60_000, maxMs: 900_000, metadata: 'desk 4' });
    assert.ok(call.key);
    assert.equal(call.secret, undefined);
    assert.deepEqual([owner.id, owner.secret, owner.label, owner.ttlMs], ['17', 's3cret', 'Anna', 60_000]);
    assert.deepEqual(owner.expiresAt, new Date(at(60_000)));
    assert.equal(owner.signal.aborted, false);
  });

  test('shows its secret to no log', async (t) => {
    const { owner } = await open(t);
    for (const shown of [inspect(owner, { depth: 9, showHidden: true }), JSON.stringify(owner)])
      assert.doesNotMatch(shown, /s3cret/);
  });

  test('locks all records of one call, and is told how', async (t) => {
    const { owner, next } = await open(t);
    const locking = owner.lock(
      [
        { kind: 'customer', id: '7', intent: 'write', mode: 'exclusive', name: 'customer/7', how: 'fresh' },
        { kind: 'rate', id: 'é/\u0000', intent: 'read' },
      ],
      { metadata: 'on the phone' },
    );
    const call = await next('POST', 'locks');
    assert.equal(call.secret, 's3cret');
    assert.ok(call.key);
    assert.deepEqual(call.body, {
      owner: '17',
      locks: [
        { kind: 'customer', id: '7', intent: 'write' },
        { kind: 'rate', id: 'é/\u0000', intent: 'read' },
      ],
      metadata: 'on the phone',
    });
    const first = {
      kind: 'customer',
      id: '7',
      intent: 'write',
      mode: 'exclusive',
      name: 'customer/7',
      fencingToken: 3,
      how: 'fresh',
    };
    const second = {
      kind: 'rate',
      id: 'é/\u0000',
      intent: 'read',
      mode: null,
      name: 'rate/%C3%A9%2F%00',
      fencingToken: null,
      how: 'notNeeded',
    };
    call.reply(201, { owner: '17', expiresAt: at(700_000), locks: [first, second] });
    assert.deepEqual(await locking, [first, second]);
    assert.deepEqual(owner.expiresAt, new Date(at(700_000)), 'the call counts as a sign of life');
  });

  test('is refused with those who hold the records', async (t) => {
    const { owner, next } = await open(t);
    const locking = owner.lock([{ kind: 'customer', id: '7', intent: 'write' }]);
    const holders = [{ kind: 'offline', label: 'Bob', owner: '9', mode: 'exclusive', since: at(0) }];
    (await next()).refuse(423, 'locked', { conflicts: [{ kind: 'customer', id: '7', holders, queued: 0 }] });
    await assert.rejects(locking, (error) => error.name === 'LockedError' && error.holders[0].label === 'Bob');
    assert.equal(owner.signal.aborted, false);
  });

  test('releases some or all of its locks, and says how many', async (t) => {
    const { owner, next } = await open(t);
    const some = owner.unlock([
      { kind: 'a', id: '1' },
      { kind: 'a', id: '2', fencingToken: 5 },
    ]);
    const first = await next('POST', 'locks/release');
    assert.deepEqual(first.body, {
      owner: '17',
      locks: [
        { kind: 'a', id: '1' },
        { kind: 'a', id: '2', fencingToken: 5 },
      ],
    });
    first.reply(200, { released: 1 });
    assert.equal(await some, 1);
    const all = owner.unlockAll();
    const second = await next('POST', 'locks/release');
    assert.deepEqual(second.body, { owner: '17', all: true });
    second.reply(200, { released: 2 });
    assert.equal(await all, 2);
    const most = owner.unlockAll({ sparing: [{ kind: 'a', id: '3' }] });
    const third = await next('POST', 'locks/release');
    assert.deepEqual(third.body, { owner: '17', all: true, sparing: [{ kind: 'a', id: '3' }] });
    third.reply(200, { released: 0 });
    assert.equal(await most, 0);
  });

  test('releases by token again after a lost answer, and what is gone by then was released', async (t) => {
    const { owner, next } = await open(t);
    const locks = [
      { kind: 'a', id: '1', fencingToken: 4 },
      { kind: 'a', id: '2', fencingToken: 5 },
    ];
    for (const [headers, expected] of [
      [{}, 2],
      [{ 'idempotency-replayed': 'true' }, 1],
    ]) {
      const releasing = owner.unlock(locks);
      const first = await next('POST', 'locks/release');
      first.drop();
      const second = await next('POST', 'locks/release');
      assert.ok(first.key);
      assert.deepEqual([second.key, second.body], [first.key, first.body]);
      second.reply(200, { released: 1 }, headers);
      assert.equal(await releasing, expected, 'an answer that is given once more is that of the first attempt');
    }
  });

  for (const [title, release] of [
    [
      'a record without a token',
      (owner) =>
        owner.unlock([
          { kind: 'a', id: '1', fencingToken: 4 },
          { kind: 'a', id: '2' },
        ]),
    ],
    ['all', (owner) => owner.unlockAll()],
    ['all but one', (owner) => owner.unlockAll({ sparing: [{ kind: 'a', id: '3' }] })],
  ]) {
    test(`does not release ${title} again after a lost answer: another step may have locked it again`, async (t) => {
      const { owner, next, calls } = await open(t);
      const before = calls.length;
      const releasing = release(owner);
      releasing.catch(() => {});
      const call = await next('POST', 'locks/release');
      assert.equal(call.key, undefined);
      call.drop();
      await assert.rejects(releasing, { name: 'OutcomeUnknownError', message: /unknown whether it happened/ });
      assert.equal(calls.length, before + 1);
    });
  }

  test('releases nothing unless it holds what the step has worked under', async (t) => {
    const { owner, next } = await open(t);
    const holding = [{ kind: 'a', id: '1', fencingToken: 4, name: 'a/1', since: new Date() }];
    const lost = [{ kind: 'a', id: '1', name: 'a/1' }];
    for (const release of [() => owner.unlock(holding, { holding }), () => owner.unlockAll({ holding })]) {
      const releasing = release();
      const call = await next('POST', 'locks/release');
      assert.deepEqual(call.body.holding, [{ kind: 'a', id: '1', fencingToken: 4 }]);
      call.refuse(409, 'lock_lost', { lost });
      await assert.rejects(releasing, { name: 'LocksLostError', code: 'lock_lost', lost });
    }
    const releasing = owner.unlock(holding, { holding, timeout: 5_000 });
    (await next()).drop();
    (await next()).refuse(409, 'lock_lost', { lost });
    await assert.rejects(releasing, { name: 'OutcomeUnknownError' }, 'the attempt before may have released it');
  });

  test('is resumed with its id and secret', async (t) => {
    const { client, next } = await scriptedApi(t);
    const resuming = client.offline.resume('17', 's3cret', { heartbeats: false });
    const beat = await next('POST', 'owners/17/heartbeat');
    assert.equal(beat.secret, 's3cret');
    beat.reply(200, { owner: '17', expiresAt: at(600_000) });
    (await next('GET', 'owners/17')).reply(200, { ...ownerBody(), locks: [] });
    const owner = await resuming;
    assert.deepEqual([owner.id, owner.secret, owner.label], ['17', 's3cret', 'Anna']);
    const listing = owner.locks();
    const lock = heldBy('17', '7');
    (await next('GET', 'owners/17')).reply(200, { ...ownerBody(), locks: [lock] });
    assert.deepEqual(await listing, [read(lock)]);
  });

  for (const [status, code, name] of [
    [404, 'unknown_owner', 'UnknownOwnerError'],
    [401, 'unauthorized', 'UnauthorizedError'],
  ]) {
    test(`is not resumed if the server says ${code}`, async (t) => {
      const { client, next } = await scriptedApi(t);
      const resuming = client.offline.resume('17', 'wrong');
      (await next()).refuse(status, code);
      await assert.rejects(resuming, { name });
    });
  }
});

describe('the locks of a bucket', () => {
  test('are listed page by page, as they are asked for', async (t) => {
    const { client, next, calls } = await scriptedApi(t);
    const locks = client.offline.locks({ kind: 'customer', owner: '17', prefix: 'é/' });
    const first = locks.next();
    (await next('GET', 'locks?kind=customer&owner=17&prefix=%C3%A9%2F')).reply(200, {
      locks: [heldBy('17', '7')],
      next: '0a',
    });
    assert.deepEqual(await first, { done: false, value: read(heldBy('17', '7')) });
    assert.equal(calls.length, 1);
    const second = locks.next();
    (await next('GET', 'locks?kind=customer&owner=17&prefix=%C3%A9%2F&cursor=0a')).reply(200, {
      locks: [heldBy('9', '8')],
      next: null,
    });
    assert.deepEqual((await second).value, read(heldBy('9', '8')));
    assert.deepEqual(await locks.next(), { done: true, value: undefined });
    assert.equal(calls.length, 2);
  });

  test('are all listed without a filter', async (t) => {
    const { client, next } = await scriptedApi(t);
    const first = client.offline.locks().next();
    (await next('GET', 'locks')).reply(200, { locks: [], next: null });
    assert.equal((await first).done, true);
  });
});

describe('the end of an owner', () => {
  test('ends it on the server; its signal does not abort, and nothing more is called', async (t) => {
    const { owner, next, calls } = await open(t);
    const ending = owner.end();
    const call = await next('DELETE', 'owners/17');
    assert.equal(call.secret, 's3cret');
    call.reply(204, '');
    await ending;
    assert.equal(owner.signal.aborted, false);
    await assert.rejects(owner.lock([{ kind: 'a', id: '1', intent: 'read' }]), { name: 'UnknownOwnerError' });
    assert.equal(calls.length, 2);
  });

  test('resolves if it has ended already, such as by an attempt whose answer was lost', async (t) => {
    const { owner, next } = await open(t);
    const ending = owner.end();
    (await next('DELETE', 'owners/17')).drop();
    (await next('DELETE', 'owners/17')).refuse(404, 'unknown_owner');
    await ending;
  });

  test('that the server tells of aborts the signal, and ends every later call', async (t) => {
    const { owner, next, calls } = await open(t);
    const { signal } = owner;
    const beating = owner.heartbeat();
    (await next()).refuse(404, 'unknown_owner');
    const error = await beating.then(assert.fail, (thrown) => thrown);
    assert.ok(error instanceof UnknownOwnerError);
    assert.deepEqual([signal.aborted, signal.reason], [true, error]);
    await assert.rejects(owner.unlockAll(), (thrown) => thrown === error);
    assert.equal(calls.length, 2);
  });

  test('of many owners listens to the client once', async (t) => {
    const warnings = [];
    const warned = ({ message }) => warnings.push(message);
    process.on('warning', warned);
    t.after(() => process.off('warning', warned));
    const { client, next } = await scriptedApi(t);
    const owners = [];
    for (let n = 0; n < 20; n++) {
      const opening = client.offline.open({ label: 'Anna' });
      (await next()).reply(201, { ...ownerBody(), ownerSecret: 's3cret' });
      owners.push(await opening);
    }
    client.close();
    assert.ok(owners.every(({ signal }) => signal.aborted));
    await elapse(0);
    assert.deepEqual(warnings, []);
  });

  test('by close() of the client aborts the signal, and leaves the owner to be resumed', async (t) => {
    const { owner, client, calls } = await open(t);
    const { signal } = owner;
    client.close();
    assert.deepEqual([signal.aborted, signal.reason.name], [true, 'AbortError']);
    await assert.rejects(owner.heartbeat(), { name: 'AbortError' });
    assert.equal(calls.length, 1);
  });
});

describe('heartbeats', () => {
  test('come three times within the TTL, and move the deadline', async (t) => {
    const { owner, next } = await open(t, { ttlMs: 900, heartbeats: true });
    const startedAt = performance.now();
    for (let beat = 1; beat <= 4; beat++) {
      const call = await next('POST', 'owners/17/heartbeat');
      assert.equal(call.key, undefined, 'an answer to an older one must not stand for it');
      call.reply(200, { owner: '17', expiresAt: at(900 + beat) });
    }
    const tookMs = performance.now() - startedAt;
    assert.ok(tookMs >= 1_100, `four of them took ${tookMs} ms`);
    assert.equal(owner.signal.aborted, false);
  });

  test('are put off by any other call', async (t) => {
    const { owner, next, calls } = await open(t, { ttlMs: 1_500, heartbeats: true });
    for (let round = 0; round < 4; round++) {
      await elapse(200);
      const locking = owner.lock([{ kind: 'a', id: '1', intent: 'read' }]);
      (await next('POST', 'locks')).reply(201, { owner: '17', expiresAt: at(1_500), locks: [GRANT] });
      await locking;
    }
    assert.deepEqual(
      calls.filter(({ path }) => path.endsWith('heartbeat')),
      [],
    );
    await next('POST', 'owners/17/heartbeat');
  });

  test('that fail are tried again until the deadline', async (t) => {
    const { owner, next } = await open(t, { ttlMs: 1_200, heartbeats: true });
    (await next('POST', 'owners/17/heartbeat')).refuse(500, 'internal');
    (await next('POST', 'owners/17/heartbeat')).refuse(500, 'internal');
    (await next('POST', 'owners/17/heartbeat')).reply(200, { owner: '17', expiresAt: at(2_000) });
    await elapse(700);
    assert.equal(owner.signal.aborted, false);
  });

  test('end with the owner', async (t) => {
    const { owner, next, calls } = await open(t, { ttlMs: 300, heartbeats: true });
    const ending = owner.end();
    (await next('DELETE', 'owners/17')).reply(204, '');
    await ending;
    await elapse(400);
    assert.equal(calls.length, 2);
  });

  test('can be declined', async (t) => {
    const { owner, calls } = await open(t, { ttlMs: 400 });
    await new Promise((resolve) => owner.signal.addEventListener('abort', resolve));
    assert.equal(calls.length, 1);
  });
});

describe('the deadline of an owner', () => {
  const isOver = (owner) => {
    const { aborted, reason } = owner.signal;
    if (aborted) assert.ok(reason instanceof UnknownOwnerError && /not renewed in time/.test(reason.message));
    return aborted;
  };

  test('aborts the signal by itself, before the TTL is over on the server', async (t) => {
    const { owner, call } = await open(t, { ttlMs: 1_000 });
    const { signal } = owner;
    const startedAt = performance.now();
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    const tookMs = performance.now() - startedAt;
    assert.ok(tookMs >= 700 && tookMs < 1_000, `${tookMs} ms`);
    assert.ok(call && isOver(owner));
  });

  test('is looked at by whoever reads the signal, however late the timers are, and by the wall clock too', async (t) => {
    const advance = clock(t);
    const { owner, calls } = await open(t, { ttlMs: 600_000 });
    advance(539_000);
    assert.equal(isOver(owner), false);
    advance(1_001);
    assert.equal(isOver(owner), true);
    await assert.rejects(owner.heartbeat(), { name: 'UnknownOwnerError', status: 0 });
    assert.equal(calls.length, 1, 'nothing is called any more');
  });

  test('makes a call reject whose answer comes past it', async (t) => {
    const advance = clock(t);
    const { owner, next } = await open(t, { ttlMs: 600_000 });
    const unlocking = owner.unlockAll();
    const call = await next();
    advance(540_001);
    call.reply(200, { released: 1 });
    await assert.rejects(unlocking, { name: 'UnknownOwnerError' });
  });

  test('counts from the first attempt of a call, since its answer may be that of the first', async (t) => {
    const advance = clock(t);
    const { owner, next } = await open(t, { ttlMs: 10_000 });
    advance(5_000);
    const locking = owner.lock([{ kind: 'a', id: '1', intent: 'read' }]);
    const first = await next();
    advance(3_000);
    first.drop();
    (await next()).reply(201, { owner: '17', expiresAt: at(15_000), locks: [GRANT] });
    await locking;
    advance(5_900);
    assert.equal(isOver(owner), false);
    advance(101);
    assert.equal(isOver(owner), true);
  });

  for (const [title, run, answer] of [
    ['a release', (owner) => owner.unlock([{ kind: 'a', id: '1' }]), { released: 1 }],
    ['a release of all', (owner) => owner.unlockAll(), { released: 0 }],
    ['a reading', (owner) => owner.locks(), { ...ownerBody(), expiresAt: at(605_000), locks: [] }],
  ]) {
    test(`starts anew with ${title}, as on the server`, async (t) => {
      const advance = clock(t);
      const { owner, next } = await open(t, { ttlMs: 600_000 });
      advance(5_000);
      const running = run(owner);
      (await next()).reply(200, answer);
      await running;
      const awayMs = Math.abs(owner.expiresAt - new Date(at(605_000)));
      assert.ok(awayMs < 1_000, owner.expiresAt.toISOString());
      advance(539_000);
      assert.equal(isOver(owner), false);
      advance(1_001);
      assert.equal(isOver(owner), true);
    });
  }

  test('does not start anew with a call that is refused', async (t) => {
    const advance = clock(t);
    const { owner, next } = await open(t, { ttlMs: 600_000 });
    advance(5_000);
    const locking = owner.lock([{ kind: 'a', id: '1', intent: 'read' }]);
    (await next()).refuse(423, 'locked', { conflicts: [] });
    await assert.rejects(locking, { name: 'LockedError' });
    advance(535_001);
    assert.equal(isOver(owner), true);
  });

  test('does not put the end off that the longest life sets', async (t) => {
    const advance = clock(t);
    const { owner, next } = await open(t, { ttlMs: 10_000, maxMs: 15_000, answer: { endsAt: at(15_000) } });
    advance(8_000);
    const unlocking = owner.unlockAll();
    (await next()).reply(200, { released: 0 });
    await unlocking;
    assert.deepEqual(owner.expiresAt, new Date(at(15_000)));
  });

  test('of a heartbeat counts from the attempt that was answered', async (t) => {
    const advance = clock(t);
    const { owner, next } = await open(t, { ttlMs: 10_000 });
    advance(5_000);
    const beating = owner.heartbeat();
    const first = await next();
    advance(3_000);
    first.drop();
    (await next()).reply(200, { owner: '17', expiresAt: at(18_000) });
    await beating;
    advance(8_900);
    assert.equal(isOver(owner), false);
    advance(101);
    assert.equal(isOver(owner), true);
  });

  test('is no later than the longest life, however often the owner is renewed', async (t) => {
    const advance = clock(t);
    const { owner, next } = await open(t, { ttlMs: 10_000, maxMs: 15_000, answer: { endsAt: at(15_000) } });
    advance(8_000);
    const beating = owner.heartbeat();
    (await next()).reply(200, { owner: '17', expiresAt: at(15_000) });
    await beating;
    advance(6_999);
    assert.equal(isOver(owner), false);
    advance(2);
    assert.equal(isOver(owner), true);
  });

  test("of a resumed owner knows the longest life by the server's clock, not ours", async (t) => {
    const advance = clock(t);
    const { client, next } = await scriptedApi(t);
    const resuming = client.offline.resume('17', 's3cret', { heartbeats: false });
    (await next()).reply(200, { owner: '17', expiresAt: at(10_000) });
    (await next()).reply(200, { ...ownerBody({ ttlMs: 10_000 }), endsAt: at(12_000), locks: [] });
    const owner = await resuming;
    advance(8_000);
    const beating = owner.heartbeat();
    (await next()).reply(200, { owner: '17', expiresAt: at(12_000) });
    await beating;
    advance(3_900);
    assert.equal(isOver(owner), false);
    advance(101);
    assert.equal(isOver(owner), true);
  });
});
