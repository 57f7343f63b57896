// Items that are handled in a task each, whichever way of scheduling one the environment has.

import assert from 'node:assert/strict';
import { describe, mock, test } from 'node:test';
import { importSource } from './support/source.mjs';

const { setImmediate: immediate } = globalThis;

/** The queue of an environment that has only these globals. */
async function queueWhere(instance, globals) {
  const names = ['setImmediate', 'scheduler'];
  const before = names.map((name) => Object.getOwnPropertyDescriptor(globalThis, name));
  for (const name of names) {
    Object.defineProperty(globalThis, name, { value: globals[name], configurable: true, writable: true });
  }
  try {
    return (await importSource('tasks', instance)).TaskQueue;
  } finally {
    names.forEach((name, index) => {
      if (before[index]) Object.defineProperty(globalThis, name, before[index]);
      else delete globalThis[name];
    });
  }
}

/** What happens to four items, of which three come in one message. */
async function handled(TaskQueue) {
  const events = [];
  const { promise, resolve } = withResolvers();
  const queue = new TaskQueue((item) => {
    events.push(item);
    queueMicrotask(() => events.push(`after ${item}`));
    if (item === 4) immediate(resolve);
  });
  immediate(() => {
    queue.now([1, 2, 3]);
    queue.later(4);
  });
  await promise;
  return events;
}

function withResolvers() {
  let resolve;
  const promise = new Promise((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

describe('each item has a task of its own, in order', () => {
  const inOrder = [1, 'after 1', 2, 'after 2', 3, 'after 3', 4, 'after 4'];

  test('by setImmediate', async () => {
    const setImmediate = mock.fn(immediate);
    assert.deepEqual(await handled(await queueWhere('immediate', { setImmediate })), inOrder);
    assert.equal(setImmediate.mock.callCount(), 3);
  });

  test('by scheduler.postTask', async () => {
    const scheduler = { postTask: mock.fn((task) => new Promise((resolve) => immediate(() => resolve(task())))) };
    assert.deepEqual(await handled(await queueWhere('scheduler', { scheduler })), inOrder);
    assert.equal(scheduler.postTask.mock.callCount(), 3);
  });

  test('by a message channel', async () => {
    const send = mock.method(MessagePort.prototype, 'postMessage');
    assert.deepEqual(await handled(await queueWhere('channel', {})), inOrder);
    assert.equal(send.mock.callCount(), 3);
    // An open port keeps Node alive.
    send.mock.calls[0].this.close();
  });
});
