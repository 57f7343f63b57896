// A scripted HTTP server: the test sees every call of the client and decides what is answered, when, and when
// the connection breaks.

import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from '../../dist/lockhouse.js';
import { scriptedPeer } from './peer.mjs';

/** One call as the server sees it. */
class Call {
  constructor(request, text, response) {
    this.method = request.method;
    this.url = request.url;
    this.path = request.url.replace(/^\/v1\/buckets\/default\//, '');
    this.headers = request.headers;
    this.secret = request.headers.authorization?.replace(/^Bearer /, '');
    this.key = request.headers['idempotency-key'];
    this.text = text;
    this.body = text === '' ? undefined : JSON.parse(text);
    this.socket = request.socket;
    this.response = response;
  }

  reply(status, body, headers = {}) {
    const text = typeof body === 'object' ? JSON.stringify(body) : body;
    this.response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(text);
  }

  /** Answers with a problem. */
  refuse(status, code, members = {}, headers = {}) {
    this.reply(
      status,
      { type: `../../../problems/${code}`, title: code, status, code, detail: `it is ${code}`, ...members },
      headers,
    );
  }

  /** Breaks the connection without an answer. */
  drop() {
    this.socket.destroy();
  }
}

/** A scripted API and a client of it, both ended with the test. `next(method, path)` gives the next call. */
export async function scriptedApi(t, { path = '/', ...options } = {}) {
  const arrivals = new EventEmitter();
  const calls = [];
  let taken = 0;
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request.setEncoding('utf8')) text += chunk;
    calls.push(new Call(request, text, response));
    arrivals.emit('call');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${server.address().port}`;
  const client = connect(`${origin}${path}`, { WebSocket: scriptedPeer().WebSocket, ...options });
  t.after(() => {
    client.close();
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return {
    client,
    origin,
    calls,
    async next(method, path) {
      while (calls.length === taken) await once(arrivals, 'call');
      const call = calls[taken++];
      if (method) assert.equal(`${call.method} ${call.path}`, `${method} ${path}`);
      return call;
    },
  };
}

/** Stops the wall clock of the client; gives what moves it by so many milliseconds. */
export function clock(t) {
  const start = Date.now();
  let elapsed = 0;
  t.mock.method(Date, 'now', () => start + elapsed);
  return (ms) => {
    elapsed += ms;
  };
}

/**
 * Asserts that it is the same assignment. A server whose clock of leases was held up reports a past instant
 * a little later.
 */
export function assertSame({ assignedAt, ...actual }, { assignedAt: before, ...expected }, message) {
  assert.deepEqual(actual, expected, message);
  assert.ok(Math.abs(assignedAt - before) < 2_000, `${assignedAt.toISOString()} was ${before.toISOString()}`);
}
