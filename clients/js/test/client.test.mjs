// The client around its sessions, against a scripted server: what its user gives it and does to it.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { hold, open, turn } from './support/session.mjs';

describe('a listener of the state that throws', () => {
  const faulty = () => {
    throw new Error('mine');
  };

  /** Collects what would end the process as uncaught. */
  function uncaught(t) {
    const errors = [];
    process.setUncaughtExceptionCaptureCallback(({ message }) => errors.push(message));
    t.after(() => process.setUncaughtExceptionCaptureCallback(null));
    return errors;
  }

  test('the client connects again and keeps its locks, and every error is reported as uncaught', async (t) => {
    const errors = uncaught(t);
    const opened = await open(t, {}, { onstate: faulty });
    const { lock } = await hold(opened, 'a', 7, 1);
    opened.server.cut();
    const server = await opened.peer.connection();
    server.welcome({ resumed: true, received: 2 });
    assert.equal(lock.fencingToken, 7);
    assert.equal(opened.client.state, 'open');
    opened.client.close();
    await turn();
    assert.deepEqual(errors, Array(5).fill('mine'));
  });

  test('close() ends the sessions of all buckets, and throws nothing', async (t) => {
    const errors = uncaught(t);
    const opened = await open(t);
    const { released } = await hold(opened, 'a', 7, 1);
    const other = opened.client.bucket('other').locks.request('a', () => {});
    opened.client.onstate = faulty;
    opened.client.close();
    assert.equal(opened.server.closeCode, 1000);
    await assert.rejects(released, { name: 'AbortError', reason: 'terminated' });
    await assert.rejects(other, { name: 'AbortError' });
    await turn();
    assert.deepEqual(errors, ['mine']);
  });

  test('where the platform has reportError, that is how the error is reported', async (t) => {
    const { client } = await open(t);
    const reported = [];
    globalThis.reportError = ({ message }) => reported.push(message);
    t.after(() => delete globalThis.reportError);
    client.onstate = faulty;
    client.close();
    assert.deepEqual(reported, ['mine']);
  });
});

describe('a listener of the state that closes the client', () => {
  test('on the loss of the connection: nothing connects again', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const states = [];
    const onstate = (state) => {
      states.push(state);
      if (state === 'lost') opened.client.close();
    };
    const opened = await open(t, {}, { onstate });
    const { released } = await hold(opened, 'a', 7, 1);
    opened.server.cut(4408);
    await assert.rejects(released, { name: 'AbortError', reason: 'expired' });
    t.mock.timers.tick(3_600_000);
    assert.equal(opened.peer.connections.length, 1);
    assert.deepEqual(states, ['connecting', 'open', 'lost', 'closed']);
  });

  test('when it is told of the end, everything has ended already', async (t) => {
    const opened = await open(t);
    const { lock } = await hold(opened, 'a', 7, 1);
    let seen;
    opened.client.onstate = (state) => {
      seen = [state, opened.server.closeCode, lock.signal.aborted];
      opened.client.close();
    };
    opened.client.close();
    assert.deepEqual(seen, ['closed', 1000, true]);
  });
});

describe('requestAll of nothing', () => {
  test('rejects with AbortError if the client is closed before its turn', async (t) => {
    const { client, locks } = await open(t);
    const all = locks.requestAll([], () => assert.fail('called back'));
    client.close();
    await assert.rejects(all, { name: 'AbortError' });
  });

  test('calls back although the session is lost before its turn', async (t) => {
    const { server, locks } = await open(t);
    const all = locks.requestAll([], (given) => given);
    server.cut(4408);
    assert.deepEqual(await all, []);
  });
});

describe('another bucket of a client', () => {
  const IDLE_MS = 30_000;

  /** A client, and another bucket of it whose connection is open. */
  async function openOther(t) {
    const opened = await open(t);
    const bucket = opened.client.bucket('other');
    const asked = bucket.locks.query();
    const server = await opened.peer.connection();
    server.welcome({ session: 'o1' });
    await server.next('join');
    const answer = async () => {
      const { id } = await server.next('query');
      server.send({ type: 'snapshot', id, held: [], pending: [] });
    };
    return { ...opened, bucket, asked, answer, other: { ...opened, server, locks: bucket.locks } };
  }

  test('is closed by itself: its locks are lost, and the client goes on', async (t) => {
    const { client, bucket, asked, other, server } = await openOther(t);
    const pending = assert.rejects(asked, { name: 'AbortError' });
    await other.server.next('query');
    const { released, lock } = await hold(other, 'a', 7, 1);
    bucket.close();
    bucket.close();
    assert.equal(other.server.closeCode, 1000);
    await pending;
    await assert.rejects(released, { name: 'AbortError', reason: 'terminated' });
    assert.equal(lock.signal.aborted, true);
    const closed = { name: 'InvalidStateError', message: 'The bucket is closed.' };
    await assert.rejects(bucket.locks.request('a', assert.fail), closed);
    await assert.rejects(bucket.locks.query(), closed);
    await assert.rejects(bucket.claims.claim('a', { claimant: 'Ada' }), closed);
    await assert.rejects(bucket.offline.open({ label: 'Ada' }), closed);
    assert.deepEqual([client.state, server.closeCode], ['open', undefined]);
  });

  test('is another object once it is closed, with a connection of its own', async (t) => {
    const { client, bucket, asked, peer } = await openOther(t);
    asked.catch(() => {});
    assert.equal(client.bucket('other'), bucket);
    bucket.close();
    const next = client.bucket('other');
    assert.notEqual(next, bucket);
    next.locks.query().catch(() => {});
    assert.match((await peer.connection()).socket.url, /bucket=other/);
  });

  test('closes its connection when nothing has been open for a while, and connects again when asked', async (t) => {
    const { client, bucket, asked, answer, other, server, peer } = await openOther(t);
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const quiet = () => t.mock.timers.tick(IDLE_MS - 1);
    await answer();
    await asked;
    quiet();
    const { released, release } = await hold(other, 'a', 7, 1);
    quiet();
    quiet();
    assert.equal(other.server.closeCode, undefined, 'a lock is held');
    release();
    await released;
    quiet();
    assert.equal(other.server.closeCode, undefined, 'the time has not passed');
    t.mock.timers.tick(1);
    assert.equal(other.server.closeCode, 1000);
    assert.deepEqual([client.state, server.closeCode, client.bucket('other')], ['open', undefined, bucket]);
    t.mock.timers.reset();
    const again = bucket.locks.request('a', () => 'granted');
    const next = await peer.connection();
    next.welcome({ session: 'o2' });
    await next.next('join');
    const { id } = await next.next('request');
    next.send({ type: 'granted', seq: 1, id, token: 8 });
    assert.equal(await again, 'granted');
  });

  test('is the client itself if it has the name of its own', async (t) => {
    const { client } = await open(t);
    assert.equal(client.bucket('default'), client);
  });
});
