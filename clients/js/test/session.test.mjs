// The session against a scripted server: numbering, resume, loss, leases, and what a server does wrong. What only a peer that misbehaves,
// delays or breaks off on purpose can show is shown here; everything else is tested against the real server.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { forever, hold, kinds, open, start, turn } from './support/session.mjs';

describe('opening', () => {
  test('the address and the subprotocol are those of the protocol', async (t) => {
    const { peer } = start(t, { bucket: 'b & c', partition: 'p' });
    await peer.connection();
    const { url, protocol } = peer.connections[0].socket;
    assert.equal(url, 'ws://peer.example/v1/ws?bucket=b+%26+c&partition=p');
    assert.equal(protocol, 'lockhouse.v1');
  });

  test('nothing but a hello is sent before the welcome; then what was called comes in order', async (t) => {
    const { peer, locks } = start(t);
    locks.request('a', forever).catch(() => {});
    locks.query().catch(() => {});
    locks.request('b', { mode: 'shared' }, forever).catch(() => {});
    const server = await peer.connection();
    await turn();
    assert.deepEqual(Object.keys(server.hello), ['type', 'client']);
    assert.equal(server.frames.length, 1);
    server.welcome();
    assert.deepEqual(kinds(server.frames.slice(1)), [
      ['join', 1, undefined],
      ['request', 2, 1],
      ['query', undefined, 2],
      ['request', 3, 3],
    ]);
    assert.equal(server.frames[1].clientId, 'me');
  });

  test('a request that is aborted before the connection opens is never sent', async (t) => {
    const { peer, locks } = start(t);
    const controller = new AbortController();
    const request = locks.request('a', { signal: controller.signal }, forever);
    controller.abort('changed my mind');
    await assert.rejects(request, (reason) => reason === 'changed my mind');
    const server = await peer.connection();
    server.welcome();
    assert.deepEqual(kinds(server.frames.slice(1)), [['join', 1, undefined]]);
  });

  test('the states are told in order', async (t) => {
    const { server, client, states } = await open(t);
    await turn();
    assert.equal(client.state, 'open');
    server.cut();
    client.close();
    assert.deepEqual(states, ['connecting', 'open', 'lost', 'closed']);
  });

  test('a server that cannot be reached is tried again', async (t) => {
    const { peer, locks } = start(t);
    const request = locks.request('a', () => 'done');
    const first = await peer.connection();
    first.cut();
    const second = await peer.connection();
    second.welcome();
    await second.next('join');
    const { id } = await second.next('request');
    second.send({ type: 'granted', seq: 1, id, token: 1 });
    assert.equal(await request, 'done');
  });
});

describe('delivery', () => {
  test('each of several grants in one packet is called back in a task of its own', async (t) => {
    const { server, locks } = await open(t);
    const log = [];
    const requests = ['a', 'b', 'c'].map((name) =>
      locks.request(name, async () => {
        log.push(name);
        await null;
        log.push(`${name} microtask`);
      }),
    );
    server.send(...[1, 2, 3].map((id) => ({ type: 'granted', seq: id, id, token: id })));
    await Promise.all(requests);
    assert.deepEqual(log, ['a', 'a microtask', 'b', 'b microtask', 'c', 'c microtask']);
  });

  test('WL-096 SP-010 of two steals in one packet the first callback starts, then its promise rejects, then the second starts', async (t) => {
    const { server, locks } = await open(t);
    const log = [];
    const steal = (label) =>
      locks
        .request('a', { steal: true }, () => {
          log.push(`${label} starts`);
          return forever();
        })
        .catch((error) => log.push(`${label} ${error.name}`));
    steal('first');
    steal('second');
    server.send(
      { type: 'granted', seq: 1, id: 1, token: 1 },
      { type: 'lost', seq: 2, id: 1, reason: 'stolen' },
      { type: 'granted', seq: 3, id: 2, token: 2 },
    );
    await turn();
    await turn();
    await turn();
    assert.deepEqual(log, ['first starts', 'first AbortError', 'second starts']);
  });

  test('an abort between the arrival of a grant and its task wins, and the grant is released', async (t) => {
    const { server, locks } = await open(t);
    const controller = new AbortController();
    const first = locks.request('a', () => controller.abort('no'));
    const second = locks.request('b', { signal: controller.signal }, () => assert.fail('called back'));
    server.send({ type: 'granted', seq: 1, id: 1, token: 1 }, { type: 'granted', seq: 2, id: 2, token: 2 });
    await assert.rejects(second, (reason) => reason === 'no');
    await first;
    await turn();
    const sent = kinds(server.frames.slice(2));
    assert.deepEqual(
      sent.filter(([type]) => type !== 'request'),
      [
        ['abort', 4, 2],
        ['release', 5, 1],
        ['release', 6, 2],
      ],
    );
  });

  test('a grant that crosses an abort is answered with a release', async (t) => {
    const { server, locks } = await open(t);
    const request = locks.request('a', { timeout: 5 }, () => assert.fail('called back'));
    await assert.rejects(request, { name: 'TimeoutError' });
    server.send({ type: 'granted', seq: 1, id: 1, token: 1 });
    assert.deepEqual(kinds(server.frames.slice(2)), [
      ['request', 2, 1],
      ['abort', 3, 1],
      ['release', 4, 1],
    ]);
  });

  test('a lock whose callback has settled before the client hears of a steal resolves normally', async (t) => {
    const { server, locks } = await open(t);
    const request = locks.request('a', () => 'mine');
    server.send({ type: 'granted', seq: 1, id: 1, token: 1 });
    await turn();
    server.send({ type: 'lost', seq: 2, id: 1, reason: 'stolen' });
    assert.equal(await request, 'mine');
  });

  test('a snapshot in several parts is put together', async (t) => {
    const { server, locks } = await open(t);
    const query = locks.query();
    const { id } = await server.next('query');
    const entry = (name) => ({ clientId: 'c', mode: 'shared', name, extra: 1 });
    server.send({ type: 'snapshot', id, held: [entry('a')], pending: [], more: true });
    server.send({ type: 'snapshot', id, held: [entry('b')], pending: [entry('c')] });
    const snapshot = await query;
    assert.equal(
      JSON.stringify(snapshot),
      '{"held":[{"clientId":"c","mode":"shared","name":"a"},{"clientId":"c","mode":"shared","name":"b"}],' +
        '"pending":[{"clientId":"c","mode":"shared","name":"c"}]}',
    );
  });

  test('64 numbered frames that nothing answers are acknowledged by a frame of its own', async (t) => {
    const { server, locks } = await open(t);
    for (let n = 0; n < 64; n++) locks.request(`n${n}`, forever).catch(() => {});
    for (let n = 1; n <= 64; n++) server.send({ type: 'granted', seq: n, id: n, token: n });
    while (!server.frames.some(({ type }) => type === 'ack')) await turn();
    assert.equal(server.frames.find(({ type }) => type === 'ack').ack, 64);
  });

  test('what is sent without acknowledgement is bounded; the rest follows as the server acknowledges', async (t) => {
    const { server, locks } = await open(t);
    for (let n = 0; n < 10_000; n++) locks.request('a', forever).catch(() => {});
    const query = locks.query();
    assert.equal(server.frames.at(-1).seq, 4_096);
    server.send({ type: 'ack', ack: 4_096 });
    assert.equal(server.frames.at(-1).seq, 8_192);
    server.send({ type: 'ack', ack: 8_000 });
    const last = server.frames.at(-1);
    assert.deepEqual([last.type, server.frames.at(-2).seq], ['query', 10_001]);
    server.send({ type: 'snapshot', id: last.id, held: [], pending: [] });
    assert.deepEqual(await query, { held: [], pending: [] });
  });
});

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
    assert.deepEqual(server.hello.resume, { session: 's1', secret: 'hush', received: 1 });
    server.welcome({ resumed: true, received: 2 });
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
    assert.deepEqual(kinds(server.frames.slice(1)), [['release', 3, 1]]);
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

  test('a fresh session in place of the old: locks are lost, pending requests are asked again in order, a steal is not', async (t) => {
    const opened = await open(t);
    const { lock, released } = await hold(opened, 'held', 7, 1);
    const { locks } = opened;
    const later = locks.request('later', () => 'asked again');
    const steal = locks.request('stolen', { steal: true }, () => {});
    const query = locks.query();
    const last = locks.request('last', { ifAvailable: true }, (given) => given);
    opened.server.cut();
    const server = await opened.peer.connection();
    const { signal } = lock;
    server.welcome({ session: 's2', epoch: 'e2' });
    await assert.rejects(released, { name: 'AbortError', reason: 'terminated' });
    assert.deepEqual([signal.aborted, signal.reason.reason], [true, 'terminated']);
    assert.throws(() => lock.fencingToken, { name: 'AbortError' });
    await assert.rejects(steal, /outcome unknown/);
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

  for (const [code, reason] of [
    [4408, 'expired'],
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
      assert.equal(server.hello.resume.received, seq);
      server.welcome({ resumed: true, received: 5 });
    }
    assert.deepEqual(await Promise.all(requests), [1, 2, 3, 4]);
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
    assert.deepEqual(server.hello.resume, { session: 's1', secret: 'hush', received: 0 });
  });
});

describe('what a server does wrong', () => {
  const grant = (fields) => ({ type: 'granted', seq: 1, id: 1, token: 1, ...fields });
  const WRONGS = {
    'not JSON': '{"type":',
    'not an object': '[1]',
    null: 'null',
    'no type': {},
    'an unknown type': { type: 'greeting' },
    'a second welcome': { type: 'welcome' },
    'no seq': grant({ seq: undefined }),
    'a gap in the numbers': grant({ seq: 2 }),
    'a repeated number': grant({ seq: 0 }),
    'a fraction for a number': grant({ seq: 1.5 }),
    'no token': grant({ token: undefined }),
    'a token that no number holds': grant({ token: 2 ** 53 }),
    'an id of the wrong type': grant({ id: '1' }),
    'a grant that was never asked for': grant({ id: 99 }),
    'an ack of what was never sent': { type: 'ack', ack: 99 },
    'an ack of the wrong type': { type: 'ack', ack: 'all' },
    'a ping without a number': { type: 'ping' },
    'a loss for no known reason': { type: 'lost', seq: 1, id: 1, reason: 'boredom' },
    'a snapshot without lists': { type: 'snapshot', id: 2 },
    'a snapshot with an unknown mode': {
      type: 'snapshot',
      id: 2,
      held: [{ clientId: 'c', mode: 'x', name: 'n' }],
      pending: [],
    },
    'a snapshot with null for an entry': { type: 'snapshot', id: 2, held: [null], pending: [] },
  };
  for (const [title, frame] of Object.entries(WRONGS)) {
    test(`${title}: the session is closed, everything pending rejects, and the client connects anew`, async (t) => {
      const { server, peer, locks } = await open(t);
      const request = locks.request('a', () => assert.fail('called back'));
      const query = locks.query();
      server.send(frame);
      await assert.rejects(request, { name: 'NetworkError', message: /broke the protocol/ });
      await assert.rejects(query, { name: 'NetworkError' });
      assert.equal(await peer.closed(server), 1000);
      const next = await peer.connection();
      assert.equal(next.hello.resume, undefined);
      next.welcome({ session: 's2' });
      await next.next('join');
      const works = locks.request('b', () => 'works');
      const { id } = await next.next('request');
      next.send({ type: 'granted', seq: 1, id, token: 1 });
      assert.equal(await works, 'works');
    });
  }

  test('a binary message is as wrong', async (t) => {
    const { server, locks } = await open(t);
    const request = locks.request('a', () => {});
    server.sendRaw(new ArrayBuffer(2));
    await assert.rejects(request, { name: 'NetworkError' });
  });

  for (const [title, fields] of Object.entries({
    'without a secret': { secret: undefined },
    'with a lease of 0': { leaseMs: 0 },
    'that resumes what was never there': { resumed: true },
  })) {
    test(`a welcome ${title} is refused`, async (t) => {
      const { peer, locks } = start(t);
      const request = locks.request('a', () => {});
      const server = await peer.connection();
      server.welcome(fields);
      await assert.rejects(request, { name: 'NetworkError' });
    });
  }

  test('a close that blames a frame of ours rejects what is pending, and is not repeated by a resume', async (t) => {
    const opened = await open(t);
    const { released } = await hold(opened, 'a', 7, 1);
    const pending = opened.locks.request('b', () => {});
    opened.server.send({ type: 'fatal', code: 'bad_frame', message: 'id: not a number' });
    opened.server.cut(4400);
    await assert.rejects(pending, { name: 'NetworkError', message: /id: not a number/ });
    await assert.rejects(released, { name: 'AbortError' });
    const server = await opened.peer.connection();
    assert.equal(server.hello.resume, undefined);
  });

  for (const [code, name] of [
    ['not_supported', 'NotSupportedError'],
    ['quota_exceeded', 'QuotaExceededError'],
    ['unknown_agent', 'InvalidStateError'],
    ['internal', 'OperationError'],
    ['from_the_future', 'OperationError'],
    ['bad_frame', 'TypeError'],
  ]) {
    test(`the refusal ${code} becomes ${name}, with what was wrong`, async (t) => {
      const { server, locks } = await open(t);
      const request = locks.request('a', () => {});
      server.send({
        type: 'error',
        seq: 1,
        id: 1,
        code,
        field: 'name',
        value: 'v',
        rule: 'r',
        message: 'name: v, but r',
      });
      const detail = { code: code === 'from_the_future' ? 'internal' : code, field: 'name', value: 'v', rule: 'r' };
      await assert.rejects(request, { name, message: 'name: v, but r', detail });
    });
  }

  test('an agent that an operator ends: its locks are broken, its requests reject, and the next ones join anew', async (t) => {
    const opened = await open(t);
    const { released, lock } = await hold(opened, 'a', 7, 1);
    const pending = opened.locks.request('b', () => {});
    await opened.server.next('request');
    opened.server.send({ type: 'ended', seq: 2, agent: 1, reason: 'broken' });
    await assert.rejects(released, { name: 'AbortError', reason: 'broken' });
    await assert.rejects(pending, { name: 'AbortError' });
    assert.equal(lock.signal.reason.reason, 'broken');
    assert.equal((await opened.server.next('join')).agent, 2);
    opened.locks.request('c', () => {}).catch(() => {});
    assert.equal((await opened.server.next('request')).agent, 2);
  });
});

describe('closing', () => {
  test('close() rejects what is pending and what is held with AbortError, and says goodbye with 1000', async (t) => {
    const opened = await open(t);
    const { released, lock } = await hold(opened, 'a', 7, 1);
    const pending = opened.locks.request('b', () => {});
    const query = opened.locks.query();
    opened.client.close();
    assert.equal(opened.server.closeCode, 1000);
    await assert.rejects(released, { name: 'AbortError', reason: 'terminated' });
    await assert.rejects(pending, { name: 'AbortError' });
    await assert.rejects(query, { name: 'AbortError' });
    assert.equal(lock.signal.aborted, true);
    await assert.rejects(
      opened.locks.request('c', () => {}),
      { name: 'InvalidStateError' },
    );
    await assert.rejects(opened.locks.query(), { name: 'InvalidStateError' });
  });

  test('close() while the connection is down resumes the session only to end it', async (t) => {
    const opened = await open(t);
    const { released } = await hold(opened, 'a', 7, 1);
    opened.server.cut();
    opened.client.close();
    await assert.rejects(released, { name: 'AbortError' });
    const server = await opened.peer.connection();
    assert.deepEqual(server.hello.resume, { session: 's1', secret: 'hush', received: 1 });
    server.welcome({ resumed: true, received: 2 });
    assert.equal(server.closeCode, 1000);
    assert.deepEqual(server.frames.slice(1), []);
  });

  test('close() before the connection opens does the same', async (t) => {
    const { client, locks } = start(t);
    const pending = locks.request('b', () => {});
    client.close();
    await assert.rejects(pending, { name: 'AbortError' });
  });

  test('a client that is closed in the listener of a loss stays closed', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const opened = await open(t);
    const { lock, released } = await hold(opened, 'a', 7, 1);
    lock.signal.addEventListener('abort', () => opened.client.close());
    opened.server.cut(4429);
    await assert.rejects(released, { name: 'AbortError' });
    t.mock.timers.tick(3_600_000);
    assert.equal(opened.peer.connections.length, 1);
    assert.equal(opened.client.state, 'closed');
  });
});
