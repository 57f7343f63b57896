// A session that outlives its connection, or does not, against a scripted server: resume, loss and the lease.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { forever, hold, kinds, open, start, turn } from './support/session.mjs';

describe('resume', () => {
  test('after a cut the session is resumed, unacknowledged frames come again with their numbers, and nothing is lost', async (t) => {
    const opened = await open(t);
    const held = await hold(opened, 'a', 7, 1);
    opened.locks.request('b', forever).catch(() => {});
    const query = opened.locks.query();
    opened.server.cut();
    held.release('kept');
    assert.equal(await held.released, 'kept');
    const server = await opened.peer.connection();
    assert.deepEqual(server.hello.resume, { session: 's1', secret: 'hush', received: 1, attempt: 1 });
    server.welcome({ resumed: true, received: 2 });
    await turn();
    const again = server.frames.slice(1);
    assert.deepEqual(kinds(again), [
      ['request', 3, 2],
      ['release', 4, 1],
      ['query', undefined, 4],
    ]);
    server.send({ type: 'snapshot', id: 4, held: [], pending: [] });
    await query;
  });

  test('a lock stays held over a resume, and its token is the same', async (t) => {
    const opened = await open(t);
    const { lock, release, released } = await hold(opened, 'a', 7, 1);
    opened.server.cut();
    const server = await opened.peer.connection();
    server.welcome({ resumed: true, received: 2 });
    assert.equal(lock.fencingToken, 7);
    assert.equal(lock.signal.aborted, false);
    release('still mine');
    assert.equal(await released, 'still mine');
    await turn();
    assert.deepEqual(kinds(server.frames.slice(1)), [['release', 3, 1]]);
  });

  test('a session that a newer connection has, as the server says instead of a welcome, goes on', async (t) => {
    const opened = await open(t);
    const { lock, release, released } = await hold(opened, 'a', 7, 1);
    opened.server.cut();
    const late = await opened.peer.connection();
    late.cut(4409);
    const server = await opened.peer.connection();
    assert.equal(server.hello.resume.attempt, 2);
    server.welcome({ resumed: true, received: 2 });
    assert.equal(lock.signal.aborted, false);
    release('still mine');
    assert.equal(await released, 'still mine');
  });

  test('the client waits as long as the server has named before it comes again', { timeout: 5_000 }, async (t) => {
    const opened = await open(t);
    opened.server.send({ type: 'closing', reason: 'shutdown', pauseMs: 400 });
    opened.server.cut(1012);
    const cut = performance.now();
    await opened.peer.connection();
    assert.ok(performance.now() - cut >= 399, 'no earlier');
  });

  test('with a lock to reclaim it waits no longer than a heartbeat', { timeout: 5_000 }, async (t) => {
    const opened = await open(t, { heartbeatMs: 100 });
    await hold(opened, 'a', 7, 1);
    opened.server.send({ type: 'closing', reason: 'shutdown', pauseMs: 4_900 });
    opened.server.cut(1012);
    await opened.peer.connection();
  });

  test('a grant that was lost with the connection is delivered after the resume, once', async (t) => {
    const opened = await open(t);
    let calls = 0;
    const request = opened.locks.request('a', () => ++calls);
    opened.server.cut();
    const server = await opened.peer.connection();
    server.welcome({ resumed: true, received: 2 });
    server.send({ type: 'granted', seq: 1, id: 1, token: 1 });
    assert.equal(await request, 1);
    assert.equal(calls, 1);
  });

  test('a fresh session in place of the old: locks are lost, pending requests are asked again in order, a steal is not', {
    timeout: 5_000,
  }, async (t) => {
    const opened = await open(t);
    const { lock, released } = await hold(opened, 'held', 7, 1);
    const { locks } = opened;
    const later = locks.request('later', () => 'asked again');
    const steal = locks.request('stolen', { steal: true }, () => {});
    const query = locks.query();
    const last = locks.request('last', { ifAvailable: true }, (given) => given);
    await turn();
    opened.server.cut();
    const server = await opened.peer.connection();
    const { signal } = lock;
    server.welcome({ session: 's2', epoch: 'e2' });
    await assert.rejects(released, { name: 'AbortError', reason: 'terminated' });
    assert.deepEqual([signal.aborted, signal.reason.reason], [true, 'terminated']);
    assert.throws(() => lock.fencingToken, { name: 'AbortError' });
    await assert.rejects(steal, /outcome unknown/);
    await turn();
    assert.deepEqual(kinds(server.frames.slice(1)), [
      ['join', 1, undefined],
      ['request', 2, 2],
      ['query', undefined, 4],
      ['request', 3, 5],
    ]);
    server.send(
      { type: 'granted', seq: 1, id: 2, token: 1 },
      { type: 'refused', seq: 2, id: 5, reason: 'unavailable' },
    );
    server.send({ type: 'snapshot', id: 4, held: [], pending: [] });
    assert.equal(await later, 'asked again');
    assert.equal(await last, null);
    await query;
  });

  test('a steal that was never sent is sent in the session that comes', async (t) => {
    const { peer, locks } = start(t);
    const steal = locks.request('a', { steal: true }, () => 'taken');
    (await peer.connection()).cut();
    const server = await peer.connection();
    server.welcome();
    await server.next('join');
    assert.equal((await server.next('request')).steal, true);
    server.send({ type: 'granted', seq: 1, id: 1, token: 1 });
    assert.equal(await steal, 'taken');
  });

  test('a steal that was asked for while the connection was lost, and so never sent, is sent in a fresh session', async (t) => {
    const opened = await open(t);
    opened.server.cut();
    const steal = opened.locks.request('a', { steal: true }, () => 'taken');
    const server = await opened.peer.connection();
    server.welcome({ session: 's2', epoch: 'e2' });
    await server.next('join');
    const { id, steal: isSteal } = await server.next('request');
    assert.equal(isSteal, true);
    server.send({ type: 'granted', seq: 1, id, token: 1 });
    assert.equal(await steal, 'taken');
  });

  test('a steal that was sent once, and not again before the session ended, may have happened', async (t) => {
    const opened = await open(t);
    const steal = opened.locks.request('a', { steal: true }, () => {});
    opened.server.cut();
    const server = await opened.peer.connection();
    server.welcome({ session: 's2', epoch: 'e2' });
    await assert.rejects(steal, /outcome unknown/);
  });

  for (const [code, reason] of [
    [4408, 'expired'],
    [4401, 'denied'],
    [4403, 'denied'],
    [4409, 'terminated'],
    [4429, 'terminated'],
  ]) {
    test(`after a close with ${code} the session is over at once, and none is resumed`, async (t) => {
      const opened = await open(t);
      const { released } = await hold(opened, 'a', 7, 1);
      opened.server.cut(code);
      await assert.rejects(released, { name: 'AbortError', reason });
      const server = await opened.peer.connection();
      assert.equal(server.hello.resume, undefined);
    });
  }

  test('a session that is cut after every frame still gives each request exactly one end', async (t) => {
    const opened = await open(t);
    const { locks, peer } = opened;
    let calls = 0;
    const requests = ['a', 'b', 'c', 'd'].map((name) => locks.request(name, () => ++calls));
    // The server has processed everything but says one thing per connection.
    let server = opened.server;
    for (let seq = 1; seq <= 4; seq++) {
      server.send({ type: 'granted', seq, id: seq, token: seq });
      server.cut();
      server = await peer.connection();
      assert.deepEqual([server.hello.resume.received, server.hello.resume.attempt], [seq, seq]);
      server.welcome({ resumed: true, received: 5 });
    }
    assert.deepEqual(await Promise.all(requests), [1, 2, 3, 4]);
    await turn();
    const releases = server.frames.filter(({ type }) => type === 'release');
    assert.deepEqual(
      kinds(releases),
      [1, 2, 3, 4].map((id) => ['release', 5 + id, id]),
    );
  });
});

describe('leases', () => {
  test('a ping is answered at once, and the answer acknowledges', async (t) => {
    const { server } = await open(t);
    server.send({ type: 'ping', n: 1, answered: 0 });
    assert.deepEqual(server.frames.at(-1), { type: 'pong', n: 1, ack: 0 });
  });

  /** Blocks the thread, so that no timer and no message is handled meanwhile. */
  const block = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

  test('past the deadline the signal of a lock is aborted, also where the thread was blocked', async (t) => {
    const opened = await open(t, { leaseMs: 200 });
    const { lock, released } = await hold(opened, 'a', 7, 1);
    assert.equal(lock.signal.aborted, false);
    block(250);
    assert.deepEqual([lock.signal.aborted, lock.signal.reason.reason], [true, 'expired']);
    await assert.rejects(released, { name: 'AbortError', reason: 'expired' });
  });

  test('past its longest hold, too, and the server is told that the lock is not held', async (t) => {
    const opened = await open(t);
    const { id, lock, released } = await hold(opened, 'a', 7, 1, { maxHold: 100 });
    const other = await hold(opened, 'b', 8, 2);
    assert.equal(lock.signal.aborted, false);
    block(120);
    assert.deepEqual([lock.signal.aborted, lock.signal.reason.reason], [true, 'expired']);
    assert.throws(() => lock.fencingToken, { name: 'AbortError' });
    await assert.rejects(released, { name: 'AbortError', reason: 'expired' });
    assert.equal((await opened.server.next('release')).id, id);
    assert.deepEqual([other.lock.signal.aborted, other.lock.fencingToken], [false, 8]);
  });

  test('past its longest hold a callback that ends well has still lost the lock', async (t) => {
    const opened = await open(t);
    const { released, release } = await hold(opened, 'a', 7, 1, { maxHold: 100 });
    block(120);
    release('done');
    await assert.rejects(released, { name: 'AbortError', reason: 'expired' });
  });

  test('past the deadline by the wall clock nothing is called back: the session is over, and a new one asks again', async (t) => {
    const opened = await open(t);
    const held = await hold(opened, 'a', 7, 1);
    const pending = opened.locks.request('b', () => 'in the new session');
    const { id } = await opened.server.next('request');
    const now = Date.now();
    t.mock.method(Date, 'now', () => now + 9_001);
    opened.server.send({ type: 'granted', seq: 2, id, token: 8 });
    await assert.rejects(held.released, { name: 'AbortError', reason: 'expired' });
    assert.equal(opened.server.closeCode, 1000);
    const server = await opened.peer.connection();
    assert.equal(server.hello.resume, undefined);
    server.welcome({ session: 's2' });
    await server.next('join');
    await server.next('request');
    server.send({ type: 'granted', seq: 1, id, token: 9 });
    assert.equal(await pending, 'in the new session');
  });

  for (const [title, answer] of Object.entries({
    'a grant': { type: 'granted', seq: 2, id: 2, token: 2 },
    'a refusal': { type: 'refused', seq: 2, id: 2, reason: 'unavailable' },
  })) {
    test(`${title} that came in time but whose task comes past the deadline is not called back`, async (t) => {
      const { server, peer, locks } = await open(t);
      const now = Date.now();
      const first = locks.request('a', forever);
      let calls = 0;
      const second = locks.request('b', { ifAvailable: true }, () => ++calls);
      server.send({ type: 'granted', seq: 1, id: 1, token: 1 }, answer);
      t.mock.method(Date, 'now', () => now + 9_001);
      await assert.rejects(first, { name: 'AbortError', reason: 'expired' });
      await turn();
      assert.equal(calls, 0);
      const fresh = await peer.connection();
      fresh.welcome({ session: 's2' });
      await fresh.next('join');
      const { id } = await fresh.next('request');
      fresh.send({ type: 'granted', seq: 1, id, token: 3 });
      assert.equal(await second, 1);
    });
  }

  test('the deadline counts from the latest answer that the server has confirmed', async (t) => {
    const opened = await open(t);
    const { lock } = await hold(opened, 'a', 7, 1);
    const start = Date.now();
    let elapsed = 5_000;
    t.mock.method(Date, 'now', () => start + elapsed);
    opened.server.send({ type: 'ping', n: 1, answered: 0 });
    elapsed = 8_000;
    opened.server.send({ type: 'ping', n: 2, answered: 1 });
    elapsed = 13_500;
    assert.equal(lock.fencingToken, 7);
    elapsed = 14_001;
    assert.throws(() => lock.fencingToken, { name: 'AbortError', reason: 'expired' });
  });

  test('a token read past the deadline tells of the loss', async (t) => {
    const opened = await open(t);
    const { lock, released } = await hold(opened, 'a', 7, 1);
    const now = performance.now();
    t.mock.method(performance, 'now', () => now + 9_500);
    assert.throws(() => lock.fencingToken, { name: 'AbortError', reason: 'expired' });
    assert.equal(lock.signal.aborted, true);
    await assert.rejects(released, { reason: 'expired' });
  });

  test('a result that comes past the deadline is not passed out as if the lock had been held', async (t) => {
    const opened = await open(t);
    const { release, released } = await hold(opened, 'a', 7, 1);
    const now = Date.now();
    t.mock.method(Date, 'now', () => now + 9_500);
    release('too late');
    await assert.rejects(released, { name: 'AbortError', reason: 'expired' });
  });

  test('without a connection the loss is told when the lease ends, not before', async (t) => {
    const opened = await open(t, { leaseMs: 300, heartbeatMs: 50 });
    const startedAt = performance.now();
    const { released } = await hold(opened, 'a', 7, 1);
    opened.server.cut();
    await assert.rejects(released, { name: 'AbortError', reason: 'expired' });
    const tookMs = performance.now() - startedAt;
    assert.ok(tookMs >= 260, `${tookMs} ms`);
  });

  test('a server that falls silent is left for a new connection, which resumes', async (t) => {
    const opened = await open(t, { heartbeatMs: 20 });
    const server = await opened.peer.connection();
    assert.equal(opened.server.closeCode, 4000);
    assert.deepEqual(server.hello.resume, { session: 's1', secret: 'hush', received: 0, attempt: 1 });
  });
});
