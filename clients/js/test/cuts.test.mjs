// One session with the real server, cut after every k-th frame in either direction, with and without delay
// and batching: each run must end as if nothing had happened, or with a clean loss, and leave nothing behind.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { WebSocket } from 'ws';
import { connect } from '../dist/lockhouse.js';
import { startServer } from './support/server.mjs';

/** A WebSocket class that breaks off once, before the k-th frame of its session goes in the given direction. */
function cuttingAt(k, direction) {
  const counter = { frames: 0, isCut: false };
  const count = (socket) => {
    counter.frames += 1;
    if (counter.frames !== k) return false;
    counter.isCut = true;
    socket.terminate();
    return true;
  };
  const Cutting = class extends WebSocket {
    #ondata;
    send(text) {
      if (direction === 'out' && count(this)) return;
      super.send(text);
    }
    set onmessage(handler) {
      this.#ondata = handler;
      super.onmessage = (event) => {
        if (direction === 'in' && count(this)) return;
        if (this.readyState === WebSocket.OPEN) this.#ondata(event);
      };
    }
  };
  return { counter, Cutting };
}

/** A WebSocket class that delivers late and several messages at once, never out of order. */
class Batching extends WebSocket {
  #ondata;
  #waiting = [];
  set onmessage(handler) {
    this.#ondata = handler;
    super.onmessage = (event) => {
      this.#waiting.push(event);
      if (this.#waiting.length === 1) setTimeout(() => this.#deliver(), 3);
    };
  }
  #deliver() {
    for (const event of this.#waiting.splice(0)) this.#ondata(event);
  }
}

describe('a session on an unreliable way', () => {
  let server;
  let witness;
  before(async () => {
    server = await startServer();
    witness = connect(server.url, { WebSocket, bucket: 'cuts', clientId: 'witness' });
  });
  after(async () => {
    witness?.close();
    await server?.kill();
  });

  /** The recorded session; gives what every request came to. */
  async function play(client, name, log) {
    const { locks } = client;
    const visit = (label, options) => locks.request(name, options, (lock) => inside(label, lock));
    const inside = async (label, lock) => {
      if (lock) assert.equal(log.inside++, 0, `${label} is alone`);
      await new Promise((resolve) => setImmediate(resolve));
      if (lock) log.inside--;
      log.calls.push(label);
      return lock ? lock.fencingToken : null;
    };
    const controller = new AbortController();
    const first = visit('first', {});
    const shared = visit('shared', { mode: 'shared' });
    const given = visit('given up', { signal: controller.signal }).catch((error) => error);
    const last = visit('last', {});
    controller.abort('enough');
    const snapshot = await locks.query();
    const tokens = await Promise.all([first, shared, last]);
    const free = await visit('free', { ifAvailable: true });
    return { tokens, free, given: await given, snapshot };
  }

  async function runOnce(WebSocketClass, name) {
    const log = { calls: [], inside: 0 };
    const client = connect(server.url, { WebSocket: WebSocketClass, bucket: 'cuts' });
    try {
      const { tokens, free, given, snapshot } = await play(client, name, log);
      assert.equal(given, 'enough');
      assert.deepEqual(log.calls, ['first', 'shared', 'last', 'free'], 'each is called back once, in order');
      assert.deepEqual(
        [...tokens, free],
        [...tokens, free].toSorted((a, b) => a - b),
        'tokens grow',
      );
      assert.ok(Array.isArray(snapshot.held));
    } finally {
      client.close();
    }
    // The witness asks behind the goodbye, on the same name: it gets the lock only once nothing is left of
    // the session.
    assert.equal(await witness.locks.request(name, { timeout: 5_000 }, () => 'nothing is left'), 'nothing is left');
  }

  for (const direction of ['out', 'in']) {
    test(`a session that is cut before any frame that goes ${direction} ends as if it had not been`, async (t) => {
      const warn = t.mock.method(console, 'warn', () => {});
      let k = 0;
      for (let isCut = true; isCut; ) {
        k += 1;
        const { counter, Cutting } = cuttingAt(k, direction);
        await runOnce(Cutting, `${direction} ${k}`).catch((e) => {
          throw new Error(`cut at ${k}: ${e.message}`, { cause: e });
        });
        isCut = counter.isCut;
      }
      assert.ok(k > 5, `${k - 1} cuts`);
      assert.equal(warn.mock.callCount(), 1, 'only the session that was cut before its first frame was never open');
    });
  }

  test('late delivery of several messages at once changes nothing', async () => {
    for (let round = 0; round < 10; round++) await runOnce(Batching, `batched ${round}`);
  });

  test('WL-105 hundreds of requests over a way that keeps breaking are each granted once', async () => {
    const { Flaky, stop } = flaky(40);
    const client = connect(server.url, { WebSocket: Flaky, bucket: 'cuts' });
    let inside = 0;
    const tokens = [];
    const visits = Array.from({ length: 100 }, (_, index) =>
      client.locks.request(`flaky ${index % 3}`, async (lock) => {
        inside += 1;
        tokens.push(lock.fencingToken);
        await new Promise((resolve) => setImmediate(resolve));
      }),
    );
    await Promise.all(visits);
    stop();
    assert.equal(inside, 100);
    assert.equal(new Set(tokens).size, 100);
    assert.deepEqual(await client.locks.query(), { held: [], pending: [] });
    client.close();
  });
});

/** A WebSocket class whose connections each break after so many messages. */
function flaky(messages) {
  let isOver = false;
  const Flaky = class extends WebSocket {
    #left = messages;
    send(text) {
      this.#left -= 1;
      if (this.#left < 0 && !isOver) this.terminate();
      else super.send(text);
    }
  };
  return { Flaky, stop: () => (isOver = true) };
}
