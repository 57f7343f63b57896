// What a server does wrong, by a scripted one: every breach of the protocol is noticed, and the client goes
// on in a new session.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { hold, open, start } from './support/session.mjs';

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
    'a token of 0': grant({ token: 0 }),
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
    ['unavailable', 'OperationError'],
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
        retryAfterMs: 1500,
        field: 'name',
        value: 'v',
        rule: 'r',
        message: 'name: v, but r',
      });
      const known = code === 'from_the_future' ? 'internal' : code;
      const detail = { code: known, field: 'name', value: 'v', rule: 'r', retryAfterMs: 1500 };
      await assert.rejects(request, { name, message: 'name: v, but r', detail });
    });
  }

  test('a lock that an operator breaks is lost with the words of the operator', async (t) => {
    const opened = await open(t);
    const { released, lock } = await hold(opened, 'a', 7, 1);
    opened.server.send({ type: 'lost', seq: 2, id: 1, reason: 'broken', why: 'she has left' });
    const message = 'The lock was broken by an operator: she has left';
    await assert.rejects(released, { name: 'AbortError', reason: 'broken', why: 'she has left', message });
    assert.equal(lock.signal.reason.why, 'she has left');
  });

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
