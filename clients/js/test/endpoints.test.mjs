// Clients that know several URLs: those of a fleet, of which each serves every client.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import WebSocket from 'ws';
import { connect } from '../dist/lockhouse.js';
import { until } from './support/cleanup.mjs';
import { scriptedPeer } from './support/peer.mjs';
import { startServer } from './support/server.mjs';
import { hold, open, turn } from './support/session.mjs';
import { deadUrl, deafUrl, freePort, silentServer } from './support/silent.mjs';

const LEASE_MS = 3_000;
const lease = `${LEASE_MS}ms`;

/** Lets the client try the URLs in the order in which they are given. */
const inOrder = (t) => t.mock.method(Math, 'random', () => 0);

/** A client that tries the URLs in this order; closed when the test ends. */
function client(t, urls, options) {
  inOrder(t);
  t.mock.method(console, 'warn', () => {});
  const alive = setInterval(() => {}, 1_000);
  const made = connect(urls, { WebSocket, ...options });
  t.after(() => {
    clearInterval(alive);
    made.close();
  });
  return made;
}

/** Holds a lock for the rest of the test. */
async function held({ locks }, name) {
  const lock = await locks.acquire(name);
  lock.signal.addEventListener('abort', () => assert.fail(`the lock was lost: ${lock.signal.reason}`));
  return lock;
}

describe('several URLs that cannot be meant', () => {
  const peer = scriptedPeer();

  for (const [title, urls, message, options] of [
    ['none', [], 'url: an empty array, but it must have at least one URL'],
    [
      'one that is none',
      ['http://a', 'ftp://b'],
      'url[1]: the protocol ftp:, but it must be http:, https:, ws: or wss:',
    ],
    ['a hole', ['http://a', undefined], /^url\[1\]: "undefined", but it must be an absolute URL/],
    ['a wrong port', ['http://a:0', 'http://b'], /^url\[0\]: "http:\/\/a:0", but it must be one with a port/],
    [
      'what is unknown in a query',
      [new URL('http://a'), new URL('http://b/?token=hush')],
      'url[1]: has "token" in its query, but it must have bucket and partition only',
    ],
    [
      'another protocol',
      ['https://a', 'ws://b'],
      'url[1]: the protocol "http:", but it must be that of url[0], "https:"',
    ],
    [
      'another bucket',
      ['http://a/?bucket=default', 'http://b', 'http://c/?bucket=x'],
      'url[2]: the bucket "x", but it must be that of url[0], "default"',
    ],
    [
      'another partition',
      ['http://a/?partition=x', 'http://b/'],
      'url[1]: the partition "", but it must be that of url[0], "x"',
      { bucket: 'b' },
    ],
  ]) {
    test(title, () => {
      const { WebSocket } = peer;
      assert.throws(() => connect(urls, { WebSocket, ...options }).close(), { name: 'TypeError', message });
      assert.equal(peer.connections.length, 0);
    });
  }

  test('a bucket and a partition of the options take the place of those of the URLs', (t) => {
    const urls = ['http://a/?bucket=x&partition=x', 'http://b/?bucket=y'];
    const made = client(t, urls, { WebSocket: peer.WebSocket, bucket: 'z', partition: 'p' });
    assert.deepEqual([made.name, made.partition], ['z', 'p']);
    assert.equal(peer.connections[0].socket.url, 'ws://a/v1/ws?bucket=z&partition=p');
  });

  test('one that leads to no HTTP API is named when a call is made', async (t) => {
    const made = client(t, ['http://a/', 'http://b/elsewhere'], { WebSocket: peer.WebSocket });
    await assert.rejects(made.claims.claim('seat', { claimant: 'me' }), {
      name: 'TypeError',
      message: /^url\[1\]: the path \/elsewhere, but/,
    });
  });
});

describe('the attempts to connect', () => {
  /** WebSockets that never open; `at` has the URLs and instants of the attempts. */
  function unanswered(t, { refuse = true } = {}) {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const at = [];
    let nowMs = 0;
    class WebSocket {
      constructor(url) {
        at.push([new URL(url).host, nowMs]);
        if (refuse) setTimeout(() => this.onclose?.({ code: 1006 }));
      }
      close() {}
    }
    const tick = (ms) => {
      for (let left = ms; left > 0; left -= 1) {
        nowMs += 1;
        t.mock.timers.tick(1);
      }
    };
    return { WebSocket, at, tick };
  }

  const urls = ['http://a', 'http://b', 'http://c'];

  test('go to all URLs at once, then pause', (t) => {
    const { WebSocket, at, tick } = unanswered(t);
    client(t, urls, { WebSocket });
    tick(20);
    assert.deepEqual(
      at.map(([host]) => host),
      ['a', 'b', 'c'],
    );
    tick(80);
    assert.deepEqual(
      at.map(([host]) => host),
      ['a', 'b', 'c', 'a', 'b', 'c'],
    );
    assert.ok(at[3][1] - at[2][1] >= 50, `a pause of ${at[3][1] - at[2][1]} ms`);
  });

  test('at a silent URL are given up after 2 s, then 4 s and 8 s, and 10 s at most', (t) => {
    const { WebSocket, at, tick } = unanswered(t, { refuse: false });
    client(t, urls, { WebSocket });
    tick(90_000);
    const lengths = at.slice(1).map(([, ms], index) => ms - at[index][1]);
    const spans = [2_000, 4_000, 8_000, 10_000].flatMap((ms) => [ms, ms, ms]);
    for (const [index, span] of spans.entries()) {
      if (index >= lengths.length) break;
      const most = span + (index % 3 === 2 ? 1_000 : 10);
      assert.ok(lengths[index] >= span && lengths[index] <= most, `${lengths}`);
    }
    assert.ok(lengths.length > 9, `${lengths}`);
  });

  test('begin at any of the URLs, and the crowd of one that is gone spreads over the others', (t) => {
    const { WebSocket, at, tick } = unanswered(t);
    t.mock.method(console, 'warn', () => {});
    const orders = new Set();
    for (let tries = 0; orders.size < 6 && tries < 10_000; tries += 1) {
      at.length = 0;
      const made = connect(urls, { WebSocket });
      tick(10);
      orders.add(at.map(([host]) => host).join(''));
      made.close();
    }
    assert.equal(orders.size, 6);
  });

  test('have no pause of more than a heartbeat while a lock is to be reclaimed', async (t) => {
    const opened = await open(t, { heartbeatMs: 200, leaseMs: 60_000 });
    await hold(opened, 'a', 7, 1);
    t.mock.timers.enable({ apis: ['setTimeout'] });
    opened.server.cut();
    for (let attempt = 1; attempt <= 8; attempt += 1) {
      t.mock.timers.tick(200);
      assert.equal(opened.peer.connections.length, attempt + 1);
      opened.peer.connections.at(-1).cut();
    }
  });

  test('are given up after a heartbeat at first while a lock is to be reclaimed', async (t) => {
    const opened = await open(t, { heartbeatMs: 200, leaseMs: 60_000 });
    await hold(opened, 'a', 7, 1);
    t.mock.timers.enable({ apis: ['setTimeout'] });
    opened.server.cut();
    t.mock.timers.tick(100);
    const attempt = opened.peer.connections.at(-1);
    t.mock.timers.tick(199);
    assert.equal(attempt.closeCode, undefined);
    t.mock.timers.tick(1);
    assert.equal(attempt.closeCode, 4000);
    await turn();
  });

  test('go to another URL once a connection has broken, and resume its session there', async (t) => {
    inOrder(t);
    const peer = scriptedPeer();
    client(t, ['http://a', 'http://b'], { WebSocket: peer.WebSocket });
    const first = await peer.connection();
    first.welcome();
    first.cut(1012);
    const second = await peer.connection();
    assert.deepEqual(
      [first, second].map(({ socket }) => new URL(socket.url).host),
      ['a', 'b'],
    );
    assert.equal(second.hello.resume.session, 's1');
  });
});

describe('a client of several URLs, with real servers', () => {
  let server;
  before(async () => {
    server = await startServer();
  });
  after(() => server?.stop());

  const others = {
    'refuses connections': deadUrl,
    'accepts connections and says nothing': async (t) => (await silentServer(t)).url,
    'accepts no connection': deafUrl,
  };
  for (const [title, other] of Object.entries(others)) {
    test(`uses the second where the first ${title}`, async (t) => {
      const made = client(t, [await other(t), server.url]);
      await (await held(made, `${title}: lock`)).release();
      const claim = await made.claims.claim(`${title}: seat`, { claimant: 'me' });
      await claim.release();
    });
  }

  test('makes a call at the second URL at once where the first refuses', async (t) => {
    const made = client(t, [await deadUrl(), server.url]);
    await (await made.claims.claim('at once', { claimant: 'me', timeout: 10_000 })).release();
  });

  test('repeats a call whose answer was lost at another URL, with the same key', async (t) => {
    const lossy = createServer((request) => request.socket.destroy());
    lossy.listen(0, '127.0.0.1');
    await once(lossy, 'listening');
    t.after(() => lossy.close());
    const calls = [];
    const recording = (url, init) => {
      calls.push([new URL(url).port, init.headers['Idempotency-Key']]);
      return fetch(url, init);
    };
    const { WebSocket: Silent } = scriptedPeer();
    const urls = [`http://127.0.0.1:${lossy.address().port}`, server.url];
    const made = client(t, urls, { WebSocket: Silent, fetch: recording });
    const claim = await made.claims.claim('lost', { claimant: 'me' });
    await claim.release();
    assert.deepEqual(
      calls.slice(0, 2).map(([port]) => Number(port)),
      [lossy.address().port, server.port],
    );
    assert.ok(calls[0][1]);
    assert.equal(calls[0][1], calls[1][1]);
  });
});

describe('a server that ends, and another one over its database', () => {
  let folder;
  let databases = 0;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lockhouse-'));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  async function takeover(t, between, end) {
    databases += 1;
    const args = ['--store', `sqlite:${join(folder, `${databases}.db`)}`, '--drain', '200ms'];
    const a = await startServer({ lease, args });
    t.after(() => a.kill());
    const port = await freePort();
    const made = client(t, [a.url, ...between, `http://127.0.0.1:${port}`]);
    const lock = await held(made, 'n');
    const token = lock.fencingToken;
    await end(a);
    const b = await startServer({ port, lease, args });
    t.after(() => b.kill());
    await until(async () => (await made.locks.query()).held.some(({ name }) => name === 'n'), 'the lock is back');
    assert.equal(lock.fencingToken, token);
    assert.equal(lock.signal.aborted, false);
    await lock.release();
  }

  for (const [how, end] of Object.entries({ stops: (a) => a.stop(), 'is killed': (a) => a.kill() })) {
    test(`of which the first ${how}: the client keeps its lock and its token`, (t) => takeover(t, [], end));
  }

  test('with a silent one between: the client has its turn at the other within the lease', async (t) => {
    const silent = await silentServer(t);
    await takeover(t, [silent.url, await deafUrl(t)], (a) => a.kill());
    assert.ok(silent.connections > 0, 'the silent one was tried');
  });
});
