// What says who connects: where it goes, when a function is asked for it, and what becomes of a client whose
// key is not taken.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { connect } from '../dist/lockhouse.js';
import { scriptedPeer } from './support/peer.mjs';
import { forever, hold, open, start, turn } from './support/session.mjs';

const denial = (code, close) => (server) => {
  server.send({ type: 'fatal', code, message: 'the token has expired' });
  server.cut(close);
};
const unauthenticated = denial('unauthenticated', 4401);

const PATIENCE = { timeout: 8_000 };

describe('the key of a client', () => {
  test('is in the first frame and in no URL', async (t) => {
    const { peer } = start(t, { key: 'lhk_ci_00' });
    const server = await peer.connection();
    assert.equal(server.hello.credential, 'lhk_ci_00');
    assert.ok(!server.socket.url.includes('lhk'));
  });

  test('is absent where there is none', async (t) => {
    const { peer } = start(t);
    assert.ok(!('credential' in (await peer.connection()).hello));
  });

  test('is in a header of each call, beside the secret of an owner', async (t) => {
    const calls = [];
    const fetch = async (url, init) => {
      calls.push([url, init.headers]);
      const body = { owner: '1', ownerSecret: 's', label: 'Ada', ttlMs: 1000, expiresAt: new Date().toISOString() };
      const status = init.method === 'DELETE' ? 204 : 201;
      return { ok: true, status, headers: { get: () => null }, text: async () => JSON.stringify(body) };
    };
    const keys = ['one', 'two'];
    const { client } = start(t, { key: async () => keys[0], fetch });
    const owner = await client.offline.open({ label: 'Ada' });
    keys.shift();
    await owner.heartbeat();
    await owner.end();
    assert.equal(calls[0][1]['Lockhouse-Key'], 'one');
    assert.ok(calls.every(([url]) => !url.includes('one')));
    assert.deepEqual([calls[1][1]['Lockhouse-Key'], calls[1][1].Authorization], ['two', 'Bearer s']);
  });

  for (const key of ['', 'two words', 'x'.repeat(8193), 7]) {
    test(`is refused at once if it is none: ${String(key).slice(0, 10)}`, () => {
      const { WebSocket, connections } = scriptedPeer();
      const message = 'key: must be a string of 1 to 8192 visible ASCII characters';
      assert.throws(() => connect('http://peer.example/', { WebSocket, key }), { name: 'TypeError', message });
      assert.equal(connections.length, 0);
    });
  }
});

describe('a key that is not taken', () => {
  for (const [code, close] of [
    ['unauthenticated', 4401],
    ['forbidden', 4403],
  ]) {
    test(`closes the client: ${code}`, async (t) => {
      const { peer, client, states, locks, warnings } = start(t, { key: 'wrong' });
      const pending = locks.request('n', forever);
      denial(code, close)(await peer.connection());
      const message = 'The lock server denies access: the token has expired';
      await assert.rejects(pending, { name: 'NotAllowedError', message });
      assert.deepEqual([client.state, states.at(-1), peer.connections.length], ['closed', 'closed', 1]);
      assert.match(warnings[0], /\(denied for good: the token has expired\)$/);
      const again = [
        locks.request('n', () => {}),
        client.claims.claim('c', { claimant: 'Ada' }),
        client.offline.open({ label: 'Ada' }),
      ];
      for (const call of again) await assert.rejects(call, { name: 'NotAllowedError', message });
    });
  }

  test('that was taken before ends the session, and the next one has the next key', async (t) => {
    const keys = ['one', 'two'];
    const { peer, server, client, locks } = await open(t, {}, { key: () => keys.shift() });
    assert.equal(server.hello.credential, 'one');
    const { released } = await hold({ server, locks }, 'n', 1, 1);
    unauthenticated(server);
    await assert.rejects(released, { name: 'AbortError', reason: 'denied' });
    const next = await peer.connection();
    assert.deepEqual([next.hello.credential, next.hello.resume], ['two', undefined]);
    assert.equal(client.state, 'lost');
  });
});

describe('a function that gives keys', () => {
  test('is asked again before a key ends, and the session goes on', async (t) => {
    const keys = ['one', 'two'];
    const { peer, server, locks } = await open(t, { credentialMs: 5000 }, { key: async () => keys.shift() });
    await hold({ server, locks }, 'n', 1, 1);
    assert.equal(await peer.closed(server), 4000);
    const next = await peer.connection();
    assert.deepEqual([next.hello.credential, next.hello.resume.session], ['two', 's1']);
  });

  test('has until the end of the key: no lock is counted on beyond', { timeout: 5_000 }, async (t) => {
    const { server, locks } = await open(t, { credentialMs: 500 }, { key: async () => 'one' });
    const { released } = await hold({ server, locks }, 'n', 1, 1);
    await assert.rejects(released, { name: 'AbortError', reason: 'denied' });
  });

  test('is asked again if it fails', async (t) => {
    let asked = 0;
    const key = async () => {
      asked += 1;
      if (asked === 1) throw new Error('offline');
      return 'two';
    };
    const { peer, warnings } = start(t, { key });
    const connected = async () => {
      for (;;) {
        const last = peer.connections.at(-1);
        if (last?.frames.length > 0) return last.frames[0];
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    };
    assert.equal((await connected()).credential, 'two');
    assert.match(warnings[0], /no key: Error: offline/);
  });
});

describe('a call, while a function looks for a key', () => {
  const forNothing = async () => assert.fail('called without a key');

  test('obeys its timeout', PATIENCE, async (t) => {
    const { client } = start(t, { key: forever, fetch: forNothing });
    const message = /no key within \d+ ms/;
    const claim = client.claims.claim('c', { claimant: 'Ada', timeout: 200 });
    await assert.rejects(claim, { name: 'UnreachableError', message });
  });

  test('obeys its signal', PATIENCE, async (t) => {
    const { client } = start(t, { key: forever, fetch: forNothing });
    const controller = new AbortController();
    const claim = client.claims.claim('c', { claimant: 'Ada', signal: controller.signal });
    await turn();
    controller.abort('enough');
    await assert.rejects(claim, (reason) => reason === 'enough');
  });

  test('ends with the client', PATIENCE, async (t) => {
    const { client } = start(t, { key: forever, fetch: forNothing });
    const opening = client.offline.open({ label: 'Ada' });
    await turn();
    client.close();
    await assert.rejects(opening, { name: 'AbortError' });
  });
});

describe('a function that gives keys that are not taken', () => {
  /** Gives these keys in turn, the last one for ever, and notes when it was asked. */
  function source(...keys) {
    const askedAt = [];
    const key = () => {
      askedAt.push(performance.now());
      return keys.length > 1 ? keys.shift() : keys[0];
    };
    return { key, askedAt };
  }
  const pauses = (askedAt) => askedAt.slice(1).map((at, index) => at - askedAt[index]);

  for (const [code, close] of [
    ['unauthenticated', 4401],
    ['forbidden', 4403],
  ]) {
    test(`is asked again, at most once a second, and what is pending goes on: ${code}`, PATIENCE, async (t) => {
      const { key, askedAt } = source('old', 'old', 'new');
      const { peer, client, states, locks, warnings } = start(t, { key });
      const pending = locks.request('n', () => 'granted');
      const refuse = denial(code, close);
      refuse(await peer.connection());
      refuse(await peer.connection());
      const server = await peer.connection();
      assert.equal(server.hello.credential, 'new');
      for (const pause of pauses(askedAt)) assert.ok(pause >= 999, `asked again after ${pause} ms`);
      assert.deepEqual([client.state, states], ['connecting', ['connecting']]);
      assert.match(warnings[0], /\(denied: the token has expired\); trying again$/);
      server.welcome();
      await server.next('join');
      const { id } = await server.next('request');
      server.send({ type: 'granted', seq: 1, id, token: 1 });
      assert.equal(await pending, 'granted');
    });
  }

  test('keeps the session while its lease lasts', PATIENCE, async (t) => {
    const { key } = source('one', 'refused', 'two');
    const { peer, server, locks } = await open(t, {}, { key });
    const { released, release } = await hold({ server, locks }, 'n', 1, 1);
    server.cut();
    unauthenticated(await peer.connection());
    const next = await peer.connection();
    assert.deepEqual([next.hello.credential, next.hello.resume.session], ['two', 's1']);
    next.welcome({ resumed: true, received: 2 });
    release('still held');
    assert.equal(await released, 'still held');
  });

  test('serves all buckets and calls with one question a second', PATIENCE, async (t) => {
    const { key, askedAt } = source('old', 'old', 'new');
    const fetch = async (_url, { headers }) => {
      const isNew = headers['Lockhouse-Key'] === 'new';
      const body = isNew ? { locks: [] } : { code: 'unauthenticated', detail: 'the token has expired' };
      const text = async () => JSON.stringify(body);
      return { ok: isNew, status: isNew ? 200 : 401, headers: { get: () => null }, text };
    };
    const { client } = start(t, { key, fetch });
    const list = async () => {
      for await (const _ of client.offline.locks()) assert.fail('a lock');
    };
    await list();
    const spent = askedAt.length;
    assert.deepEqual([spent, pauses(askedAt).every((pause) => pause >= 999)], [3, true], String(pauses(askedAt)));
    await Promise.all([
      list(),
      list(),
      client
        .bucket('other')
        .claims.assignment('a')
        .catch(() => {}),
    ]);
    assert.equal(askedAt.length, spent + 3, 'a key that is taken is asked for with each call');
  });

  test('is asked for no call whose time is over: the call says what the server said', PATIENCE, async (t) => {
    const { key } = source('old');
    const fetch = async () => {
      const body = { code: 'unauthenticated', detail: 'the token has expired' };
      return { ok: false, status: 401, headers: { get: () => null }, text: async () => JSON.stringify(body) };
    };
    const { client } = start(t, { key, fetch });
    await assert.rejects(client.claims.claim('c', { claimant: 'Ada', timeout: 500 }), { code: 'unauthenticated' });
  });
});

test('a lock that the key does not allow rejects with a NotAllowedError', async (t) => {
  const { server, locks } = await open(t);
  const refused = locks.request('n', { steal: true }, () => {});
  const { id } = await server.next('request');
  server.send({ type: 'error', seq: 1, id, code: 'forbidden', field: 'permission', message: 'permission must be …' });
  await assert.rejects(refused, { name: 'NotAllowedError' });
});
