// The session against a scripted server: its opening, the delivery of what both sides say, and its end. What
// only a peer that misbehaves, delays or breaks off on purpose can show is shown here; everything else is
// tested against the real server.

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
    await turn();
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
    await turn();
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

  test('a server that was never reached is warned of once, and without the query of its URL', async (t) => {
    const { peer, warnings } = start(t, { bucket: 'private' });
    (await peer.connection()).cut();
    (await peer.connection()).cut();
    await peer.connection();
    assert.deepEqual(warnings, [
      'lockhouse: cannot connect to ws://peer.example/v1/ws (close code 1006); trying again',
    ]);
  });

  test('the warning has what the platform says of a server that is absent', async (t) => {
    const { peer, warnings } = start(t);
    (await peer.connection()).fail('connect ECONNREFUSED 127.0.0.1:7420');
    await peer.connection();
    assert.match(warnings[0], /\(connect ECONNREFUSED 127\.0\.0\.1:7420, close code 1006\); trying again/);
  });

  test('a request that times out without a connection says so, and why there is none', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const { peer, locks } = start(t);
    const request = locks.request('a', { timeout: 50 }, () => {});
    (await peer.connection()).fail('connect ECONNREFUSED 127.0.0.1:7420');
    t.mock.timers.tick(50);
    await assert.rejects(request, {
      name: 'TimeoutError',
      message:
        'The lock was not granted within 50 ms; cannot connect to ws://peer.example/v1/ws (connect ECONNREFUSED 127.0.0.1:7420, close code 1006).',
    });
  });

  test('the warning has what the server said when it refused', async (t) => {
    const { peer, warnings } = start(t);
    const server = await peer.connection();
    server.send({ type: 'fatal', code: 'bad_frame', message: 'hello: too old' });
    server.cut(4400);
    assert.match(warnings[0], /\(close code 4400, hello: too old\)/);
  });

  test('a server that never answers is warned of, too', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const { peer, warnings } = start(t);
    await peer.connection();
    t.mock.timers.tick(10_000);
    assert.match(warnings[0], /\(no answer within 10000 ms\)/);
  });

  test('a connection that breaks after it was open is not warned of', async (t) => {
    const { peer, server, warnings } = await open(t);
    server.cut();
    (await peer.connection()).cut();
    await peer.connection();
    assert.deepEqual(warnings, []);
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
    await turn();
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
    await turn();
    for (let n = 1; n <= 64; n++) server.send({ type: 'granted', seq: n, id: n, token: n });
    await turn();
    assert.deepEqual(server.frames.at(-1), { type: 'ack', ack: 64 });
  });

  test('what is sent without acknowledgement is bounded; the rest follows as the server acknowledges', async (t) => {
    const { server, locks } = await open(t);
    for (let n = 0; n < 10_000; n++) locks.request('a', forever).catch(() => {});
    const query = locks.query();
    await turn();
    const first = server.frames.at(-1).seq;
    assert.ok(first > 500 && first < 2_048, `${first} frames`);
    while (server.frames.at(-1).type !== 'query') {
      const { seq } = server.frames.at(-1);
      server.send({ type: 'ack', ack: seq - 10 });
      await turn();
      const more = server.frames.at(-1);
      assert.ok(more.type === 'query' || (more.seq > seq && more.seq < seq + 2_048), `${more.seq}`);
    }
    const last = server.frames.at(-1);
    assert.deepEqual([last.type, server.frames.at(-2).seq], ['query', 10_001]);
    server.send({ type: 'snapshot', id: last.id, held: [], pending: [] });
    assert.deepEqual(await query, { held: [], pending: [] });
  });
});

describe('messages of several frames', () => {
  test('what one turn of the program sends goes in one message, in order', async (t) => {
    const { server, locks } = await open(t);
    await turn();
    const before = server.messages;
    for (let n = 0; n < 10; n++) locks.request(`n${n}`, forever).catch(() => {});
    const query = locks.query();
    query.catch(() => {});
    assert.equal(server.messages, before, 'nothing is sent before the turn ends');
    await turn();
    assert.equal(server.messages, before + 1);
    assert.deepEqual(kinds(server.frames.slice(-2)), [
      ['request', 11, 10],
      ['query', undefined, 11],
    ]);
  });

  test('a release is sent before the program learns that it is', async (t) => {
    const { server, locks } = await open(t);
    let sent = 0;
    const request = locks
      .request('n', async () => {})
      .then(() => {
        sent = server.frames.filter(({ type }) => type === 'release').length;
      });
    await server.next('request');
    server.send({ type: 'granted', seq: 1, id: 1, token: 1 });
    await request;
    assert.equal(sent, 1);
  });

  test('an array is handled frame by frame, each callback in a task of its own', async (t) => {
    const { server, locks } = await open(t);
    const order = [];
    for (let n = 1; n <= 3; n++) {
      locks.request(`n${n}`, () => {
        order.push(`callback ${n}`);
        queueMicrotask(() => order.push(`microtask ${n}`));
      });
    }
    await turn();
    const before = server.messages;
    server.sendRaw(JSON.stringify([1, 2, 3].map((n) => ({ type: 'granted', seq: n, id: n, token: n }))));
    while (order.length < 6) await turn();
    await turn();
    assert.deepEqual(
      order,
      [1, 2, 3].flatMap((n) => [`callback ${n}`, `microtask ${n}`]),
    );
    assert.deepEqual(kinds(server.frames.slice(-3)), [
      ['release', 5, 1],
      ['release', 6, 2],
      ['release', 7, 3],
    ]);
    assert.equal(server.messages, before + 3, 'no release waits for the callback of another');
  });

  test('what the first callback of a message schedules comes behind the others', async (t) => {
    const { server, locks } = await open(t);
    const order = [];
    for (let n = 1; n <= 3; n++) {
      locks.request('n', { mode: 'shared' }, async () => {
        order.push(`callback ${n}`);
        await turn();
        order.push(`after callback ${n}`);
      });
    }
    await turn();
    server.sendRaw(JSON.stringify([1, 2, 3].map((n) => ({ type: 'granted', seq: n, id: n, token: n }))));
    while (order.length < 6) await turn();
    assert.deepEqual(
      order.map((step) => step.split(' ')[0]),
      ['callback', 'callback', 'callback', 'after', 'after', 'after'],
    );
  });

  test('a message has at most 1024 frames and 65,536 bytes', async (t) => {
    const { server, locks } = await open(t, { limits: { windowBytes: 1 << 20 } });
    await turn();
    const sizes = [];
    const { socket } = server;
    const arrived = server.arrived.bind(server);
    server.arrived = (text) => {
      sizes.push([Buffer.byteLength(text), [JSON.parse(text)].flat().length]);
      arrived(text);
    };
    for (let n = 0; n < 2_000; n++) locks.request('n', forever).catch(() => {});
    for (let n = 0; n < 20; n++) locks.request('\u20ac'.repeat(4_000), forever).catch(() => {});
    await turn();
    assert.equal(socket.connection, server);
    assert.equal(
      sizes.reduce((sum, [, frames]) => sum + frames, 0),
      2_020,
    );
    for (const [bytes, frames] of sizes) assert.ok(bytes <= 65_536 && frames <= 1_024, `${bytes} ${frames}`);
    assert.ok(sizes.length < 40, `${sizes.length} messages`);
  });

  test('a ping is answered by a message of its own, ahead of what the turn sends', async (t) => {
    const { server, locks } = await open(t);
    await turn();
    const before = server.messages;
    locks.request('a', forever).catch(() => {});
    server.send({ type: 'ping', n: 1, answered: 0 });
    assert.equal(server.messages, before + 1);
    assert.deepEqual(server.frames.at(-1), { type: 'pong', n: 1, ack: 0 });
    await turn();
    assert.deepEqual(kinds(server.frames.slice(-1)), [['request', 2, 1]]);
  });

  for (const [title, message] of [
    ['an empty array', '[]'],
    ['an array in an array', '[[{"type":"ack","ack":0}]]'],
    ['more than 1024 frames', JSON.stringify(Array.from({ length: 1_025 }, () => ({ type: 'ack', ack: 0 })))],
    ['what is no object', '[{"type":"ack","ack":0},1]'],
  ]) {
    test(`${title} breaks the protocol`, async (t) => {
      const { server, locks } = await open(t);
      const request = locks.request('a', forever);
      await turn();
      server.sendRaw(message);
      await assert.rejects(request, /broke the protocol/);
    });
  }
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
    assert.deepEqual(server.hello.resume, { session: 's1', secret: 'hush', received: 1, attempt: 1 });
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

describe('the window', () => {
  const LIMITS = { frameBytes: 65_536, windowBytes: 4_096 };
  /** What a frame counts for, as the protocol says it. */
  const weight = (frame) => Buffer.byteLength(JSON.stringify(frame)) + 96;
  const weightOf = (frames) => frames.reduce((sum, frame) => sum + weight(frame), 0);

  test('has no more bytes than the server says, questions among them', async (t) => {
    const { peer, locks } = start(t);
    const server = await peer.connection();
    server.welcome({ limits: LIMITS });
    // A unit beyond ASCII has more than one byte.
    for (let n = 0; n < 40; n++) locks.request(`é${n}`, { metadata: '∞'.repeat(50) }, forever).catch(() => {});
    await turn();
    let sent = server.frames.slice(1);
    assert.ok(sent.length > 5 && weightOf(sent) <= LIMITS.windowBytes, `${sent.length}: ${weightOf(sent)}`);
    // What is acknowledged makes space for as much.
    server.send({ type: 'ack', ack: sent.at(-1).seq });
    await turn();
    assert.ok(server.frames.length > 1 + sent.length);
    while (server.frames.at(-1).id !== 40) {
      server.send({ type: 'ack', ack: server.frames.at(-1).seq });
      await turn();
    }
    server.send({ type: 'ack', ack: server.frames.at(-1).seq });
    const before = server.frames.length;
    for (let n = 0; n < 40; n++) locks.query().catch(() => {});
    await turn();
    sent = server.frames.slice(before);
    assert.ok(sent.length > 5 && weightOf(sent) <= LIMITS.windowBytes, `${sent.length}: ${weightOf(sent)}`);
    // An answer shows that the question, and what was sent before it, is carried out.
    server.send({ type: 'snapshot', id: sent.at(-1).id, held: [], pending: [] });
    await turn();
    assert.ok(server.frames.length > before + sent.length);
  });
});
