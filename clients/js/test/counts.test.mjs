// What a request costs the client, counted exactly: messages, timers, microtasks and promises. A count that
// grows is a decision, not an accident.

import assert from 'node:assert/strict';
import { createHook } from 'node:async_hooks';
import { after, before, describe, mock, test } from 'node:test';
import { promiseHooks } from 'node:v8';
import WebSocket from 'ws';
import { connect } from '../dist/lockhouse.js';
import { startServer } from './support/server.mjs';

/** Counts while `work` runs: it begins and ends in callbacks, so that no promise of the test counts. */
async function counted(work) {
  const counts = { messages: 0, timers: 0, microtasks: 0, promises: 0 };
  const send = mock.method(WebSocket.prototype, 'send');
  const hook = createHook({
    init: (_id, type) => {
      if (type === 'Timeout') counts.timers += 1;
      if (type === 'Microtask') counts.microtasks += 1;
    },
  });
  try {
    await new Promise((resolve) => {
      setImmediate(() => {
        send.mock.resetCalls();
        hook.enable();
        const unhook = promiseHooks.onInit(() => (counts.promises += 1));
        work(() => {
          unhook();
          hook.disable();
          counts.messages = send.mock.callCount();
          resolve();
        });
      });
    });
  } finally {
    send.mock.restore();
  }
  return counts;
}

describe('the cost of requests', () => {
  let server;
  let client;
  let locks;

  before(async () => {
    server = await startServer();
    client = connect(server.url, { WebSocket });
    locks = client.locks;
    for (let n = 0; n < 50; n++) await locks.request('warm', () => {});
  });

  after(async () => {
    client?.close();
    await server.stop();
  });

  /** One after another, each from the reaction to the one before. */
  const inTurn = (count) => (done) => {
    const next = (left) => {
      if (left === 0) return done();
      locks.request('n', () => {}).then(() => next(left - 1));
    };
    next(count);
  };

  /** All in one turn. */
  const together = (count, name) => (done) => {
    let left = count;
    for (let n = 0; n < count; n++) {
      locks
        .request(name(n), () => {})
        .then(() => {
          left -= 1;
          if (left === 0) done();
        });
    }
  };

  /** The costs of one request more: what is so whatever else happens to be under way. */
  const each = async (scenario) => {
    const [few, many] = [await counted(scenario(100)), await counted(scenario(200))];
    return Object.fromEntries(Object.entries(many).map(([key, count]) => [key, (count - few[key]) / 100]));
  };

  // One of the promises is that of the test's own reaction.
  test('of one after another: a message for the request and one for the release', async () => {
    // The timer keeps the process alive while something is held or wanted.
    assert.deepEqual(await each(inTurn), { messages: 2, timers: 1, microtasks: 3, promises: 4 });
  });

  test('of many names at once: the requests go together, and each release as it comes', async () => {
    const costs = await each((count) => together(count, (n) => `n${n}`));
    // How many requests fit into a message is a matter of bytes.
    assert.ok(costs.messages >= 1 && costs.messages <= 1.1, `${costs.messages} messages`);
    assert.deepEqual({ ...costs, messages: 1 }, { messages: 1, timers: 0, microtasks: 2, promises: 4 });
  });

  test('of one name at once', async () => {
    const costs = await each((count) => together(count, () => 'n'));
    assert.deepEqual(costs, { messages: 1, timers: 0, microtasks: 2, promises: 4 });
  });
});
