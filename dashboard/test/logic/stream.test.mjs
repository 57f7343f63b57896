// The stream of events over its connections, with a server of HTTP that misbehaves.

import assert from 'node:assert/strict';
import { EventEmitter, getEventListeners, once } from 'node:events';
import { createServer } from 'node:http';
import { afterEach, describe, test } from 'node:test';
import { load } from './support.mjs';

const { follow } = await load('data/stream.ts');

const fetchOfNode = globalThis.fetch;
afterEach(() => {
  globalThis.fetch = fetchOfNode;
});

/** A server whose connections are answered by `answers` in turn; `turns` has a promise for each. */
async function serve(t, ...answers) {
  const came = new EventEmitter();
  const turns = answers.map((_, turn) => once(came, String(turn)));
  let number = 0;
  const server = createServer((request, response) => {
    const turn = number++;
    answers[turn](response);
    came.emit(String(turn), { request, response });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const ended = new AbortController();
  t.after(() => {
    ended.abort();
    server.closeAllConnections();
    server.close();
  });
  globalThis.fetch = (path, options) => fetchOfNode(`http://127.0.0.1:${server.address().port}${path}`, options);
  return { turns, signal: ended.signal };
}

const begin = (text) => (response) => response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(text);
const closed = ([{ response }]) => once(response, 'close');

describe('a stream of events', { timeout: 20_000 }, () => {
  test('that is silent for too long is given up, and goes on where it was', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const { turns, signal } = await serve(t, begin('id: 7.1\nevent: granted\ndata: {}\n\n'), begin(': hello\n\n'));
    const events = new Promise((resolve) => void follow('/events', resolve, signal));
    const first = await turns[0];
    // The events are handed on together after a moment, once they have been read.
    const tick = setInterval(() => t.mock.timers.tick(250), 5);
    assert.deepEqual(await events, [{ type: 'granted' }]);
    await closed(first);
    const [{ request }] = await turns[1];
    clearInterval(tick);
    assert.equal(request.headers['last-event-id'], '7.1');
  });

  test('that cannot be read is left', async (t) => {
    const { turns, signal } = await serve(t, begin('event: granted\ndata: {\n\n'), begin(': hello\n\n'));
    void follow('/events', () => assert.fail('no event was read'), signal);
    await closed(await turns[0]);
    await turns[1];
  });

  test('whose connections were refused keeps none of them, and nothing of their pauses', async (t) => {
    const refuse = (response) => response.writeHead(429).write('later');
    const { turns, signal } = await serve(t, refuse, begin(': hello\n\n'));
    void follow('/events', () => {}, signal);
    await closed(await turns[0]);
    await turns[1];
    assert.deepEqual(getEventListeners(signal, 'abort'), []);
  });
});
