// The client in Node as programs are: how processes and workers end, and what of Node the locks keep to.

import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { spawn } from 'node:child_process';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { WebSocket } from 'ws';
import { connect } from '../dist/lockhouse.js';
import { cleanups } from './support/cleanup.mjs';
import { startServer } from './support/server.mjs';
import { hold, open, turn } from './support/session.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Only what ends a session at once can help within this time: the lease is a minute. */
const SOON_MS = 2_000;
const PATIENCE = { timeout: 20_000 };
const started = cleanups();
/** By the protocol of their pages: the URL of the server, and what Node needs to trust it. */
const servers = {};

before(async () => {
  const plain = await startServer({ lease: '60s' });
  started.keep(plain, () => plain.kill());
  servers.ws = { server: plain, env: {} };
  const folder = await mkdtemp(join(tmpdir(), 'lockhouse-node-'));
  started.keep(folder, () => rm(folder, { recursive: true }));
  const server = await startServer({ lease: '60s', args: [`--tls-self-signed=${folder}`] });
  started.keep(server, () => server.kill());
  servers.wss = { server, env: { NODE_EXTRA_CA_CERTS: join(folder, 'lockhouse-self-signed.pem') } };
});
after(() => started.end());

/** The WebSocket classes that programs use, with what their process needs to have them. */
const CLASSES = {
  'the package ws': { flags: [], source: `import { WebSocket } from 'ws';` },
  "Node's own WebSocket": { flags: ['--experimental-websocket', '--no-warnings'], source: '' },
};

/** Runs a program that has `url` and a WebSocket class; gives its end, and what it has printed until then. */
function run(t, url, { env = {}, flags, source }, program) {
  const code = `import { connect, install } from 'lockhouse'; ${source}\nconst url = '${url}';\n${program}`;
  const child = spawn(process.execPath, [...flags, '--input-type=module', '--eval', code], {
    cwd: ROOT,
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  let text = '';
  let complaints = '';
  child.stdout.on('data', (chunk) => (text += chunk));
  child.stderr.on('data', (chunk) => (complaints += chunk));
  const ended = once(child, 'close').then(([exitCode]) => ({ exitCode, text, complaints }));
  /** Waits until the program has printed this. */
  const says = async (word) => {
    while (!text.includes(word)) {
      const isOver = await Promise.race([once(child.stdout, 'data').then(() => false), ended.then(() => true)]);
      if (isOver && !text.includes(word)) throw new Error(`it ended: ${complaints}`);
    }
  };
  return { ended, says, send: (word) => child.stdin.write(`${word}\n`) };
}

/** A client of the server of `ws` that asks for the name; resolves with how long that took. */
async function takes(t, name) {
  const client = connect(servers.ws.server.url, { WebSocket });
  t.after(() => client.close());
  const startedAt = performance.now();
  await client.locks.request(name, { timeout: 10_000 }, () => {});
  return performance.now() - startedAt;
}

describe('a process that holds a lock', () => {
  for (const [scheme, [title, parts]] of ['ws', 'wss'].flatMap((each) =>
    Object.entries(CLASSES).map((entry) => [each, entry]),
  )) {
    for (const [how, end, exitCode] of [
      ['process.exit()', 'process.exit(3)', 3],
      ['an uncaught error', 'setTimeout(() => { throw new Error("mine"); })', 1],
      ['an unhandled rejection', 'Promise.reject(new Error("mine"))', 1],
    ]) {
      test(`says goodbye before ${how}, by ${title} over ${scheme}`, PATIENCE, async (t) => {
        const { server, env } = servers[scheme];
        const program = run(
          t,
          server.url,
          { ...parts, env },
          `await connect(url, { WebSocket }).locks.request('held', () => { ${end}; return new Promise(() => {}); });`,
        );
        const { exitCode: code, complaints } = await program.ended;
        assert.equal(code, exitCode, complaints);
        const other = run(
          t,
          server.url,
          { ...parts, env },
          `const client = connect(url, { WebSocket });
           const startedAt = performance.now();
           await client.locks.request('held', { timeout: 10_000 }, () => console.log(performance.now() - startedAt));`,
        );
        const { text, complaints: errors } = await other.ended;
        assert.ok(text !== '' && Number(text) < SOON_MS, `${text}${errors}`);
      });
    }
  }
});

describe('a client that has nothing held or pending lets the process end', () => {
  for (const [title, parts] of Object.entries(CLASSES)) {
    for (const [when, program] of [
      ['that has only installed it', 'install(url, { WebSocket });'],
      ['that has used it', "await install(url, { WebSocket }) && await navigator.locks.request('a', () => {});"],
      [
        'that has read a snapshot of another bucket',
        "await connect(url, { WebSocket }).bucket('other').locks.query(); setTimeout(() => {}, 200);",
      ],
    ]) {
      test(`${when}, by ${title}`, PATIENCE, async (t) => {
        const startedAt = performance.now();
        const { ended } = run(t, servers.ws.server.url, parts, program);
        const { exitCode, complaints } = await ended;
        assert.equal(exitCode, 0, complaints);
        assert.ok(performance.now() - startedAt < 5_000);
      });
    }

    test(`but not with a lock that is held or asked for, by ${title}`, PATIENCE, async (t) => {
      const name = `kept ${title.length}`;
      const { ended, says } = run(
        t,
        servers.ws.server.url,
        parts,
        `const { locks } = connect(url, { WebSocket });
         locks.request('${name}', () => console.log('first'));
         locks.request('${name}', (lock) => new Promise((resolve) => {
           console.log('second');
           const { signal } = lock;
           signal.addEventListener('abort', resolve);
         })).catch(() => console.log('stolen'));`,
      );
      await says('second');
      const client = connect(servers.ws.server.url, { WebSocket });
      t.after(() => client.close());
      await client.locks.request(name, { steal: true }, () => {});
      const { exitCode, text, complaints } = await ended;
      assert.deepEqual([exitCode, text], [0, 'first\nsecond\nstolen\n'], complaints);
    });
  }

  test('of a server that is not there', PATIENCE, async (t) => {
    const { ended } = run(t, 'http://127.0.0.1:9', CLASSES['the package ws'], 'install(url, { WebSocket });');
    assert.equal((await ended).exitCode, 0);
  });

  test('but not before a release has left that a lost connection holds up', PATIENCE, async (t) => {
    const { ended, says, send } = run(
      t,
      servers.ws.server.url,
      { flags: [], source: `import { WebSocket } from 'ws';` },
      `const sockets = [];
       class Cut extends WebSocket { constructor(...args) { super(...args); sockets.push(this); } }
       const { locks } = connect(url, { WebSocket: Cut });
       await locks.request('late', () => new Promise((resolve) => {
         console.log('held');
         process.stdin.once('data', () => { sockets[0].terminate(); setImmediate(resolve); process.stdin.destroy(); });
       }));`,
    );
    await says('held');
    send('go');
    const { exitCode, complaints } = await ended;
    assert.equal(exitCode, 0, complaints);
    const tookMs = await takes(t, 'late');
    assert.ok(tookMs < SOON_MS, `${tookMs} ms`);
  });
});

describe('a worker that is terminated', () => {
  const worker = (t, name) => {
    const code = `
      const { parentPort } = require('node:worker_threads');
      const { WebSocket } = require('ws');
      import('${new URL('../dist/lockhouse.js', import.meta.url)}').then(({ connect }) => {
        const { locks } = connect('${servers.ws.server.url}', { WebSocket });
        locks.request('${name}', () => {
          parentPort.postMessage('held');
          return new Promise(() => {});
        });
      });`;
    const thread = new Worker(code, { eval: true });
    t.after(() => thread.terminate());
    return thread;
  };

  for (const [when, isEarly] of [
    ['before it has a client', true],
    ['while it holds the lock', false],
  ]) {
    test(`leaves no lock behind if a client has adopted it ${when}`, PATIENCE, async (t) => {
      const name = `adopted ${when}`;
      const client = connect(servers.ws.server.url, { WebSocket });
      t.after(() => client.close());
      const thread = worker(t, name);
      if (isEarly) client.adopt(thread);
      await once(thread, 'message');
      if (!isEarly) {
        client.adopt(thread);
        // The answer of the thread comes after the one that it has given by then.
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
      await thread.terminate();
      const tookMs = await takes(t, name);
      assert.ok(tookMs < SOON_MS, `${tookMs} ms`);
    });
  }

  test('has to be a worker of Node', async (t) => {
    const { client } = await open(t);
    for (const none of [undefined, {}, { threadId: 1 }, { once() {} }]) {
      const message = `worker: ${none}, but it must be a Worker of node:worker_threads`;
      assert.throws(() => client.adopt(none), { name: 'TypeError', message });
    }
  });
});

describe('the asynchronous context of a request', () => {
  const storage = new AsyncLocalStorage();

  /** Asks in the context of its name; gives that of the callback, which comes from the socket. */
  const asks = (ask) => storage.run('mine', () => ask(() => storage.getStore()));

  test('is that of its callback', async (t) => {
    const { server, locks } = await open(t);
    const asked = asks((callback) => locks.request('a', callback));
    const refused = asks((callback) => locks.request('a', { ifAvailable: true }, callback));
    const first = await server.next('request');
    const second = await server.next('request');
    storage.run('other', () => {
      server.send({ type: 'granted', seq: 1, id: first.id, token: 1 });
      server.send({ type: 'refused', seq: 2, id: second.id, reason: 'unavailable', holders: [], queued: 0 });
    });
    assert.deepEqual([await asked, await refused], ['mine', 'mine']);
  });

  test('is that of the callback of requestAll', async (t) => {
    const { server, locks } = await open(t);
    const asked = asks((callback) => locks.requestAll(['a', 'b'], callback));
    for (let seq = 1; seq <= 2; seq++) {
      const { id } = await server.next('request');
      storage.run('other', () => server.send({ type: 'granted', seq, id, token: seq }));
    }
    assert.equal(await asked, 'mine');
  });
});

describe("the channels of Node's own locks", () => {
  /** What is published of requests from now on. */
  function listen(t) {
    const published = [];
    for (const event of ['start', 'grant', 'miss', 'end']) {
      const onmessage = (message) => published.push([event, message]);
      subscribe(`locks.request.${event}`, onmessage);
      t.after(() => unsubscribe(`locks.request.${event}`, onmessage));
    }
    return published;
  }
  const target = { name: 'a', mode: 'exclusive' };
  const plain = { ...target, steal: false, ifAvailable: false };

  test('have a request, its grant and its end', async (t) => {
    const published = listen(t);
    const opened = await open(t);
    const { released, release } = await hold(opened, 'a', 1, 1);
    assert.deepEqual(published, [
      ['start', target],
      ['grant', target],
    ]);
    release();
    await released;
    assert.deepEqual(published.slice(2), [['end', { ...plain, error: undefined }]]);
  });

  test('have a lock that is not available', async (t) => {
    const published = listen(t);
    const { server, locks } = await open(t);
    const asked = locks.request('a', { ifAvailable: true }, () => {});
    const { id } = await server.next('request');
    server.send({ type: 'refused', seq: 1, id, reason: 'unavailable', holders: [], queued: 0 });
    await asked;
    await turn();
    assert.deepEqual(published, [
      ['start', target],
      ['miss', target],
      ['end', { ...plain, ifAvailable: true, error: undefined }],
    ]);
  });

  test('have the error of a callback, and that of a loss', async (t) => {
    const published = listen(t);
    const opened = await open(t);
    const error = new Error('mine');
    const failing = opened.locks.request('a', () => Promise.reject(error));
    const { id } = await opened.server.next('request');
    opened.server.send({ type: 'granted', seq: 1, id, token: 1 });
    await assert.rejects(failing, error);
    await opened.server.next('release');
    const lost = await hold(opened, 'a', 2, 2);
    opened.server.send({ type: 'lost', seq: 3, id: lost.id, reason: 'stolen' });
    const loss = await lost.released.catch((reason) => reason);
    const ends = published.filter(([event]) => event === 'end').map(([, message]) => message);
    assert.deepEqual(ends, [
      { ...plain, error },
      { ...plain, error: loss },
    ]);
  });
});
