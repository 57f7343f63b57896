// Locks over a restart of the server, against a scripted one: a test for each row of the table in
// src/reclaim.ts.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { forever, hold, kinds, open, turn } from './support/session.mjs';

/** A client of a server that lets locks be reclaimed. */
const openReclaiming = (t, fields, options) => open(t, { reclaims: true, ...fields }, options);

/** The server is gone; gives the connection to its successor, which has said welcome. */
async function restart({ server, peer }, fields) {
  server.cut();
  const next = await peer.connection();
  next.welcome({ session: 's2', epoch: 'e2', reclaims: true, recoveringMs: 10_000, ...fields });
  return next;
}

/** The same, up to the reclaim of the only lock. */
async function restartAndReclaim(opened, fields) {
  const server = await restart(opened, fields);
  await server.next('join');
  const reclaim = await server.next('reclaim');
  return { ...opened, server, reclaim };
}

/** Stops the wall clock of the client; gives what moves it by so many milliseconds. */
function clock(t) {
  const start = Date.now();
  let elapsed = 0;
  t.mock.method(Date, 'now', () => start + elapsed);
  return (ms) => {
    elapsed += ms;
  };
}

const said = async (server) => {
  await turn();
  return server.frames.slice(1).filter(({ type }) => type !== 'pong' && type !== 'ack');
};

describe('a lock over a restart of the server', () => {
  test('is reclaimed with what its grant said, and goes on with the same token', async (t) => {
    const opened = await openReclaiming(t);
    const advance = clock(t);
    const options = { mode: 'shared', metadata: 'nightly', maxHold: 60_000, ticket: 't7' };
    const { lock, release, released } = await hold(opened, 'a\ud800', 7, 1, options);
    advance(2_000);
    const { server, reclaim } = await restartAndReclaim(opened);
    assert.deepEqual(reclaim, {
      type: 'reclaim',
      id: 2,
      agent: 1,
      name: 'a\ud800',
      mode: 'shared',
      metadata: 'nightly',
      maxHoldMs: 58_000,
      token: 7,
      ticket: 't7',
      seq: 2,
    });
    await turn();
    assert.deepEqual([server.frames[1].type, server.frames[1].clientId], ['join', 'me']);
    server.send({ type: 'granted', seq: 1, id: 2, token: 7, ticket: 't7b' });
    await turn();
    assert.deepEqual([lock.fencingToken, lock.signal.aborted], [7, false]);
    release('done');
    assert.equal(await released, 'done');
    await turn();
    assert.deepEqual(kinds([server.frames.at(-1)]), [['release', 4, 2]]);
  });

  test('of a resumed session is not reclaimed', async (t) => {
    const opened = await openReclaiming(t);
    const { lock } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    opened.server.cut();
    const server = await opened.peer.connection();
    server.welcome({ resumed: true, received: 2, reclaims: true });
    assert.deepEqual(await said(server), []);
    assert.equal(lock.fencingToken, 7);
  });

  for (const [title, fields] of Object.entries({
    'in the same epoch': { epoch: 'e1' },
    'whose server lets nothing be reclaimed': { reclaims: false },
    'whose server does not know of reclaims': { reclaims: undefined, recoveringMs: undefined },
  })) {
    test(`is lost with a fresh session ${title}`, async (t) => {
      const opened = await openReclaiming(t);
      const { released } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
      const server = await restart(opened, fields);
      await assert.rejects(released, { name: 'AbortError', reason: 'terminated' });
      assert.deepEqual(kinds(await said(server)), [['join', 1, undefined]]);
    });
  }

  test('without a ticket is lost, and the others are reclaimed', async (t) => {
    const opened = await openReclaiming(t);
    const without = await hold(opened, 'a', 7, 1);
    const { lock } = await hold(opened, 'b', 8, 2, { ticket: 't8' });
    const { reclaim } = await restartAndReclaim(opened);
    await assert.rejects(without.released, { name: 'AbortError', reason: 'terminated' });
    assert.equal(reclaim.name, 'b');
    assert.equal(lock.signal.aborted, false);
  });

  /** In the turn in which the frames come the connection breaks, and the new server says welcome. */
  function restartInOneTurn(t, { server, peer }, ...frames) {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    server.send(...frames);
    server.cut();
    t.mock.timers.tick(100);
    const next = peer.connections.at(-1);
    next.socket.onopen({});
    next.socket.onopen = null;
    next.welcome({ session: 's2', epoch: 'e2', reclaims: true });
    return next;
  }

  for (const [title, notice, reason] of [
    ['whose loss has come', { type: 'lost', id: 1, reason: 'stolen' }, 'stolen'],
    ['whose agent has been ended', { type: 'ended', agent: 1, reason: 'broken' }, 'broken'],
  ]) {
    test(`${title}, though it waits for its task, is lost for that reason`, async (t) => {
      const opened = await openReclaiming(t);
      const { released } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
      opened.locks.query().catch(() => {});
      const query = { type: 'error', seq: 2, id: 2, code: 'internal', message: 'the query failed' };
      const server = restartInOneTurn(t, opened, query, { seq: 3, ...notice });
      await assert.rejects(released, { name: 'AbortError', reason });
      assert.deepEqual(kinds(await said(server)), [
        ['join', 1, undefined],
        ['reclaimed', 2, undefined],
      ]);
    });
  }

  test('whose grant has come, but waits for its task, is not held yet: it is asked for anew', async (t) => {
    const opened = await openReclaiming(t);
    const calls = [];
    for (const name of ['a', 'b'])
      opened.locks.request(name, ({ fencingToken }) => calls.push(name, fencingToken) && forever()).catch(() => {});
    const server = restartInOneTurn(
      t,
      opened,
      { type: 'granted', seq: 1, id: 1, token: 7, ticket: 't7' },
      { type: 'granted', seq: 2, id: 2, token: 8, ticket: 't8' },
    );
    assert.deepEqual(kinds(await said(server)), [
      ['join', 1, undefined],
      ['reclaim', 2, 3],
      ['reclaimed', 3, undefined],
      ['request', 4, 4],
    ]);
    server.send(
      { type: 'granted', seq: 1, id: 3, token: 7, ticket: 't7b' },
      { type: 'granted', seq: 2, id: 4, token: 9, ticket: 't9' },
    );
    await turn();
    await turn();
    assert.deepEqual(calls, ['a', 7, 'b', 9]);
  });

  test('whose callback ends while the server is away is over: it resolves, and is not reclaimed', async (t) => {
    const opened = await openReclaiming(t);
    const { release, released } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    opened.server.cut();
    release('done');
    assert.equal(await released, 'done');
    const server = await opened.peer.connection();
    server.welcome({ session: 's2', epoch: 'e2', reclaims: true });
    assert.deepEqual(kinds(await said(server)), [
      ['join', 1, undefined],
      ['reclaimed', 2, undefined],
    ]);
  });

  test('whose release was sent but never acknowledged is not reclaimed', async (t) => {
    const opened = await openReclaiming(t);
    const { release, released } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    release('done');
    assert.equal(await released, 'done');
    await opened.server.next('release');
    const server = await restart(opened);
    assert.deepEqual(kinds(await said(server)), [
      ['join', 1, undefined],
      ['reclaimed', 2, undefined],
    ]);
  });

  test('whose callback ends before the answer is over: a release follows the reclaim', async (t) => {
    const opened = await openReclaiming(t);
    const { release, released, lock } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    const { server } = await restartAndReclaim(opened);
    release('done');
    assert.equal(await released, 'done');
    assert.deepEqual(kinds(await said(server)), [
      ['join', 1, undefined],
      ['reclaim', 2, 2],
      ['reclaimed', 3, undefined],
      ['release', 4, 2],
    ]);
    server.send({ type: 'lost', seq: 1, id: 2, reason: 'superseded' });
    await turn();
    assert.equal(lock.signal.aborted, false);
  });
});

describe('the deadline of the former session', () => {
  test('stays in force until the answer: the welcome does not move it', async (t) => {
    const advance = clock(t);
    const opened = await openReclaiming(t);
    const { lock, released } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    advance(8_000);
    const { server } = await restartAndReclaim(opened);
    assert.equal(lock.fencingToken, 7);
    advance(1_001);
    assert.throws(() => lock.fencingToken, { name: 'AbortError', reason: 'expired' });
    await assert.rejects(released, { name: 'AbortError', reason: 'expired' });
    server.send({ type: 'granted', seq: 1, id: 2, token: 7, ticket: 't7b' });
    await turn();
    assert.deepEqual(kinds([server.frames.at(-1)]), [['release', 4, 2]], 'a grant that comes too late is released');
    assert.equal(server.closeCode, undefined, 'the new session goes on');
  });

  test('is looked at before a grant is taken for an answer in time', async (t) => {
    const advance = clock(t);
    const opened = await openReclaiming(t);
    const { lock, released } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    const { server } = await restartAndReclaim(opened);
    advance(4_000);
    server.send({ type: 'ping', n: 1, answered: 0 });
    advance(4_900);
    server.send({ type: 'ping', n: 2, answered: 1 });
    advance(101);
    server.send({ type: 'granted', seq: 1, id: 2, token: 7, ticket: 't7b' });
    await assert.rejects(released, { name: 'AbortError', reason: 'expired' });
    assert.equal(lock.signal.aborted, true);
    await turn();
    assert.equal(server.frames.at(-1).type, 'release');
  });

  test('may be the end of the key: the lock is denied, and did not expire', async (t) => {
    const opened = await openReclaiming(t, { credentialMs: 5_000 });
    const advance = clock(t);
    const { lock, released } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    await restartAndReclaim(opened);
    advance(5_001);
    assert.throws(() => lock.fencingToken, { name: 'AbortError', reason: 'denied' });
    await assert.rejects(released, { name: 'AbortError', reason: 'denied' });
  });

  test('is watched without any traffic', { timeout: 10_000 }, async (t) => {
    const opened = await openReclaiming(t, { leaseMs: 400, heartbeatMs: 100 });
    const startedAt = performance.now();
    const { released } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    const { server } = await restartAndReclaim(opened, { leaseMs: 60_000, heartbeatMs: 60_000 });
    await assert.rejects(released, { name: 'AbortError', reason: 'expired' });
    const tookMs = performance.now() - startedAt;
    assert.ok(tookMs >= 350 && tookMs < 5_000, `${tookMs} ms`);
    assert.equal(server.closeCode, undefined);
  });

  test('is over before the new server is found: the lock is lost, and not reclaimed', async (t) => {
    const advance = clock(t);
    const opened = await openReclaiming(t);
    const { released } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    opened.server.cut();
    const late = await opened.peer.connection();
    advance(9_001);
    late.welcome({ session: 's2', epoch: 'e2', reclaims: true });
    await assert.rejects(released, { name: 'AbortError', reason: 'expired' });
    const server = await opened.peer.connection();
    server.welcome({ session: 's3', epoch: 'e2', reclaims: true });
    assert.deepEqual(kinds(await said(server)), [['join', 1, undefined]]);
  });

  test('is over when a listener of another loss has taken too long: the lock is not reclaimed', async (t) => {
    const advance = clock(t);
    const opened = await openReclaiming(t);
    const without = await hold(opened, 'a', 7, 1);
    const { released } = await hold(opened, 'b', 8, 2, { ticket: 't8' });
    without.lock.signal.addEventListener('abort', () => advance(9_001));
    const next = await restart(opened);
    await assert.rejects(released, { name: 'AbortError', reason: 'expired' });
    assert.deepEqual(
      (await said(next)).filter(({ type }) => type === 'reclaim'),
      [],
    );
  });

  test('ends with the answer: from then on that of the new session counts', async (t) => {
    const advance = clock(t);
    const opened = await openReclaiming(t);
    const { lock } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    advance(5_000);
    const { server } = await restartAndReclaim(opened);
    server.send({ type: 'granted', seq: 1, id: 2, token: 7, ticket: 't7b' });
    await turn();
    advance(8_900);
    assert.equal(lock.fencingToken, 7);
    advance(5_000);
    assert.throws(() => lock.fencingToken, { name: 'AbortError', reason: 'expired' });
    assert.equal(server.closeCode, 1000);
  });
});

describe('the answer to a reclaim', () => {
  test('with another token ends the session, as the server broke the protocol', async (t) => {
    const opened = await openReclaiming(t);
    const { released } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    const { server } = await restartAndReclaim(opened);
    server.send({ type: 'granted', seq: 1, id: 2, token: 8, ticket: 't8' });
    await assert.rejects(released, { name: 'AbortError', reason: 'terminated' });
    assert.equal(server.closeCode, 1000);
  });

  test('twice ends the session, too', async (t) => {
    const opened = await openReclaiming(t);
    const { released } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    const { server } = await restartAndReclaim(opened);
    server.send({ type: 'granted', seq: 1, id: 2, token: 7, ticket: 't7b' });
    await turn();
    server.send({ type: 'granted', seq: 2, id: 2, token: 7, ticket: 't7b' });
    await assert.rejects(released, { reason: 'terminated' });
    assert.equal(server.closeCode, 1000);
  });

  for (const [title, grants] of Object.entries({ 'a loss': 0, 'a grant and then a loss': 1 })) {
    test(`that is ${title} tells the holder that the lock is superseded`, async (t) => {
      const opened = await openReclaiming(t);
      const { lock, released } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
      const { signal } = lock;
      const { server } = await restartAndReclaim(opened);
      if (grants) server.send({ type: 'granted', seq: 1, id: 2, token: 7, ticket: 't7b' });
      await turn();
      assert.equal(signal.aborted, false);
      server.send({ type: 'lost', seq: grants + 1, id: 2, reason: 'superseded' });
      await assert.rejects(released, { name: 'AbortError', reason: 'superseded', message: /over a restart/ });
      assert.deepEqual([signal.aborted, signal.reason.reason], [true, 'superseded']);
    });
  }

  test('that is an error loses the lock', async (t) => {
    const opened = await openReclaiming(t);
    const { released } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    const { server } = await restartAndReclaim(opened);
    server.send({ type: 'error', seq: 1, id: 2, code: 'quota_exceeded', message: 'too many locks' });
    await assert.rejects(released, { name: 'AbortError', reason: 'superseded' });
    assert.equal(server.closeCode, undefined);
  });

  test('to another lock changes nothing for this one', async (t) => {
    const opened = await openReclaiming(t);
    const first = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    const second = await hold(opened, 'b', 8, 2, { ticket: 't8' });
    const { server } = await restartAndReclaim(opened);
    server.send({ type: 'lost', seq: 1, id: 3, reason: 'superseded' });
    await assert.rejects(first.released, { reason: 'superseded' });
    assert.equal(second.lock.signal.aborted, false);
    second.release('kept');
    assert.equal(await second.released, 'kept');
  });
});

describe('more that ends before the answer', () => {
  test('a connection that breaks and is resumed: the reclaim is sent again with its number', async (t) => {
    const opened = await openReclaiming(t);
    const { lock } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    const { server } = await restartAndReclaim(opened);
    server.cut();
    const again = await opened.peer.connection();
    assert.deepEqual(again.hello.resume, { session: 's2', secret: 'hush', received: 0, attempt: 1 });
    again.welcome({ session: 's2', epoch: 'e2', reclaims: true, resumed: true, received: 1 });
    assert.deepEqual(kinds(await said(again)), [
      ['reclaim', 2, 2],
      ['reclaimed', 3, undefined],
    ]);
    again.send({ type: 'granted', seq: 1, id: 2, token: 7, ticket: 't7b' });
    await turn();
    assert.equal(lock.fencingToken, 7);
  });

  test('a second restart: the same ticket under the same deadline', async (t) => {
    const advance = clock(t);
    const opened = await openReclaiming(t);
    const { lock, released } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    advance(6_000);
    const second = await restartAndReclaim(opened);
    const third = await restartAndReclaim(second, { session: 's3', epoch: 'e3' });
    assert.deepEqual([third.reclaim.token, third.reclaim.ticket], [7, 't7']);
    advance(2_900);
    assert.equal(lock.fencingToken, 7);
    advance(101);
    assert.throws(() => lock.fencingToken, { reason: 'expired' });
    await assert.rejects(released, { reason: 'expired' });
    assert.equal(third.server.closeCode, undefined);
  });

  test('a second restart after the answer: the new ticket under the new deadline', async (t) => {
    const advance = clock(t);
    const opened = await openReclaiming(t);
    const { lock } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    advance(6_000);
    const second = await restartAndReclaim(opened);
    second.server.send({ type: 'granted', seq: 1, id: 2, token: 7, ticket: 't7b' });
    await turn();
    const third = await restartAndReclaim(second, { session: 's3', epoch: 'e3' });
    assert.deepEqual([third.reclaim.token, third.reclaim.ticket], [7, 't7b']);
    advance(8_900);
    assert.equal(lock.fencingToken, 7);
    advance(101);
    assert.throws(() => lock.fencingToken, { reason: 'expired' });
  });

  test('two restarts with a lock of each epoch: each is held under the deadline of its own session', async (t) => {
    const advance = clock(t);
    const opened = await openReclaiming(t);
    const old = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    advance(5_000);
    const second = await restartAndReclaim(opened);
    await second.server.next('reclaimed');
    const young = await hold(second, 'b', 8, 1, { ticket: 't8' });
    const third = await restart(second, { session: 's3', epoch: 'e3' });
    assert.deepEqual(
      (await said(third)).map(({ type, name }) => [type, name]),
      [
        ['join', undefined],
        ['reclaim', 'a'],
        ['reclaim', 'b'],
        ['reclaimed', undefined],
      ],
    );
    advance(4_001);
    await assert.rejects(async () => old.lock.fencingToken, { reason: 'expired' });
    assert.equal(young.lock.fencingToken, 8);
    advance(5_000);
    assert.throws(() => young.lock.fencingToken, { reason: 'expired' });
  });

  for (const [code, reason] of [
    [4408, 'expired'],
    [4401, 'denied'],
    [4403, 'denied'],
    [4409, 'terminated'],
    [4429, 'terminated'],
    [4400, 'terminated'],
  ]) {
    test(`a close with ${code}: the lock is lost, and never reclaimed again`, async (t) => {
      const opened = await openReclaiming(t);
      const { released } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
      const { server } = await restartAndReclaim(opened);
      server.cut(code);
      await assert.rejects(released, { name: 'AbortError', reason });
      const next = await opened.peer.connection();
      next.welcome({ session: 's3', epoch: 'e3', reclaims: true });
      assert.deepEqual(kinds(await said(next)), [['join', 1, undefined]]);
    });
  }

  test('an operator who ends the agent: the lock is broken', async (t) => {
    const opened = await openReclaiming(t);
    const { released } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    const { server } = await restartAndReclaim(opened);
    server.send({ type: 'ended', seq: 1, agent: 1, reason: 'broken' });
    await assert.rejects(released, { name: 'AbortError', reason: 'broken' });
  });

  test('close(): the lock is lost, and the new session is told goodbye', async (t) => {
    const opened = await openReclaiming(t);
    const { released } = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    const { server } = await restartAndReclaim(opened);
    opened.client.close();
    assert.equal(server.closeCode, 1000);
    await assert.rejects(released, { name: 'AbortError', reason: 'terminated' });
  });

  test('a listener of a loss that closes the client: nothing is reclaimed', async (t) => {
    const opened = await openReclaiming(t);
    const without = await hold(opened, 'a', 7, 1);
    const { released } = await hold(opened, 'b', 8, 2, { ticket: 't8' });
    without.lock.signal.addEventListener('abort', () => opened.client.close());
    const server = await restart(opened);
    await assert.rejects(released, { reason: 'terminated' });
    assert.deepEqual(await said(server), []);
  });
});

describe('what else a restart changes', () => {
  test('reclaims come first, then what is pending in its order; a steal is not asked again', async (t) => {
    const opened = await openReclaiming(t);
    const { locks } = opened;
    locks.request('before', () => {}).catch(() => {});
    await opened.server.next('request');
    await hold(opened, 'a', 7, 1, { ticket: 't7' });
    const steal = locks.request('stolen', { steal: true }, () => {});
    const query = locks.query();
    await opened.server.next('request');
    await opened.server.next('query');
    await hold(opened, 'b', 8, 2, { mode: 'shared', ticket: 't8' });
    const last = locks.request('last', { ifAvailable: true }, (given) => given);
    const server = await restart(opened);
    await assert.rejects(steal, /outcome unknown/);
    await turn();
    const names = (await said(server)).map(({ type, seq, id, name }) => [type, seq, id, name]);
    assert.deepEqual(names, [
      ['join', 1, undefined, undefined],
      ['reclaim', 2, 7, 'a'],
      ['reclaim', 3, 8, 'b'],
      ['reclaimed', 4, undefined, undefined],
      ['request', 5, 9, 'before'],
      ['query', undefined, 10, undefined],
      ['request', 6, 11, 'last'],
    ]);
    server.send({ type: 'snapshot', id: 10, held: [], pending: [] });
    assert.deepEqual(await query, { held: [], pending: [] });
    server.send({ type: 'refused', seq: 1, id: 11, reason: 'unavailable' });
    assert.equal(await last, null);
  });

  test('a request of a listener of a loss is asked after all others', async (t) => {
    const opened = await openReclaiming(t);
    const without = await hold(opened, 'a', 7, 1);
    await hold(opened, 'b', 8, 2, { ticket: 't8' });
    without.lock.signal.addEventListener('abort', () => opened.locks.request('again', forever).catch(() => {}));
    const server = await restart(opened);
    assert.deepEqual(
      (await said(server)).map(({ type, name }) => [type, name]),
      [
        ['join', undefined],
        ['reclaim', 'b'],
        ['reclaimed', undefined],
        ['request', 'again'],
      ],
    );
  });

  test('an abort of what is pending names its new number', async (t) => {
    const opened = await openReclaiming(t);
    await hold(opened, 'a', 7, 1, { ticket: 't7' });
    const controller = new AbortController();
    const pending = opened.locks.request('b', { signal: controller.signal }, () => {});
    const server = await restart(opened);
    controller.abort('no');
    await assert.rejects(pending, (reason) => reason === 'no');
    assert.deepEqual(kinds(await said(server)), [
      ['join', 1, undefined],
      ['reclaim', 2, 3],
      ['reclaimed', 3, undefined],
      ['request', 4, 4],
      ['abort', 5, 4],
    ]);
  });

  test('an agent that took the place of an ended one reclaims under its own number', async (t) => {
    const opened = await openReclaiming(t);
    opened.server.send({ type: 'ended', seq: 1, agent: 1, reason: 'broken' });
    await opened.server.next('join');
    await hold(opened, 'a', 7, 2, { ticket: 't7' });
    const { server, reclaim } = await restartAndReclaim(opened);
    await turn();
    assert.deepEqual([server.frames[1].agent, reclaim.agent], [2, 2]);
  });

  test('every bucket reclaims its own locks over its own connection', async (t) => {
    const opened = await openReclaiming(t);
    const { client, peer } = opened;
    const mine = await hold(opened, 'a', 7, 1, { ticket: 't7' });
    const { locks } = client.bucket('other');
    const other = { ...opened, locks };
    const asked = locks.query();
    other.server = await peer.connection();
    other.server.welcome({ session: 'o1', reclaims: true });
    await other.server.next('join');
    const { id } = await other.server.next('query');
    other.server.send({ type: 'snapshot', id, held: [], pending: [] });
    await asked;
    const others = await hold(other, 'a', 3, 1, { ticket: 't3' });
    const first = await restartAndReclaim(opened);
    const second = await restartAndReclaim(other, { session: 'o2' });
    assert.deepEqual([first.reclaim.ticket, second.reclaim.ticket], ['t7', 't3']);
    first.server.send({ type: 'lost', seq: 1, id: first.reclaim.id, reason: 'superseded' });
    second.server.send({ type: 'granted', seq: 1, id: second.reclaim.id, token: 3, ticket: 't3b' });
    await assert.rejects(mine.released, { reason: 'superseded' });
    others.release('kept');
    assert.equal(await others.released, 'kept');
  });

  test('a timeout while the server recovers says so', async (t) => {
    const opened = await openReclaiming(t);
    await restart(opened);
    const request = opened.locks.request('a', { timeout: 5 }, () => {});
    await assert.rejects(request, { name: 'TimeoutError', message: /from before its restart/ });
  });
});
