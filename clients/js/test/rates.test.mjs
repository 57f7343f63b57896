// A tenant that asks for more than its rate allows: its calls come again by themselves, against the real
// server.

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import WebSocket from 'ws';
import { connect } from '../dist/lockhouse.js';
import { cleanups, until } from './support/cleanup.mjs';
import { startServer } from './support/server.mjs';

const RATE = 5;
const LOW_RATE = 1;

describe('a tenant over its rate', () => {
  const started = cleanups();
  const servers = new Map();
  before(async () => {
    const folder = await mkdtemp(join(tmpdir(), 'lockhouse-rates-'));
    started.keep(folder, () => rm(folder, { recursive: true }));
    for (const rate of [RATE, LOW_RATE]) {
      const file = join(folder, `${rate}.toml`);
      await writeFile(file, `[limits]\ntenant_rate = ${rate}\n`);
      const server = await startServer({ args: ['--config', file] });
      started.keep(server, () => server.kill());
      servers.set(rate, server);
    }
  });
  after(() => started.end());

  /** A client, and the statuses of what its calls were answered. */
  function start(t, rate = RATE) {
    const statuses = [];
    const watched = async (...call) => {
      const response = await fetch(...call);
      statuses.push(response.status);
      return response;
    };
    const client = connect(servers.get(rate).url, { WebSocket, fetch: watched });
    t.after(() => client.close());
    return { client, statuses };
  }

  test('its calls wait for their turn, and each is done once', async (t) => {
    const { client, statuses } = start(t);
    const names = Array.from({ length: 3 * RATE }, (_, n) => `turn ${n}`);
    const startedAt = performance.now();
    const claims = await Promise.all(names.map((name) => client.claims.claim(name, { claimant: 'Ada' })));
    // What a second allows is done at once, the rest at the rate.
    assert.ok(performance.now() - startedAt >= 1_500, `${performance.now() - startedAt} ms`);
    assert.equal(new Set(claims.map((claim) => claim.fencingToken)).size, names.length);
    assert.equal(statuses.filter((status) => status === 201).length, names.length);
    assert.ok(statuses.includes(429), 'nothing was refused');
  });

  test('a call that is given up meanwhile rejects at once, and is never done', async (t) => {
    const { client, statuses } = start(t);
    const reason = { why: 'changed my mind' };
    const controller = new AbortController();
    const names = Array.from({ length: 4 * RATE }, (_, n) => `given up ${n}`);
    const calls = names.map((name) => client.claims.claim(name, { claimant: 'Ada', signal: controller.signal }));
    const ends = Promise.allSettled(calls);
    await until(() => statuses.filter((status) => status === 429).length >= RATE, 'some are refused');
    const abortedAt = performance.now();
    controller.abort(reason);
    const rejected = (await ends).filter((end) => end.status === 'rejected');
    // To wait for their turns would take seconds.
    assert.ok(performance.now() - abortedAt < 1_000, `${performance.now() - abortedAt} ms`);
    assert.ok(rejected.length >= RATE && rejected.every((end) => end.reason === reason));
    const answered = statuses.length;
    const { claims } = start(t).client;
    // By now all of them would have come again.
    const last = await claims.claim('the last', { claimant: 'Ada' });
    assert.equal(last.resource, 'the last');
    assert.equal(statuses.length, answered, 'nothing is sent any more');
  });

  test('a timeout that is over before rejects with what the server said', async (t) => {
    const { client } = start(t, LOW_RATE);
    const names = Array.from({ length: 6 }, (_, n) => `in vain ${n}`);
    const ends = await Promise.allSettled(
      names.map((name) => client.claims.claim(name, { claimant: 'Ada', timeout: 2_000 })),
    );
    const rejected = ends.filter((end) => end.status === 'rejected').map((end) => end.reason);
    // Two at once, and one in each second.
    assert.ok(rejected.length >= 2, `${rejected.length} rejected`);
    for (const error of rejected) {
      assert.deepEqual([error.name, error.code, error.status], ['UnavailableError', 'rate_limited', 429]);
      assert.ok(error.retryAfterMs > 0 && error.retryAfterMs < 10_000, `${error.retryAfterMs} ms`);
    }
  });
});

describe('a session over its rate', () => {
  const started = cleanups();
  after(() => started.end());

  test('loses nothing, however many requests it makes at once', { timeout: 40_000 }, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'lockhouse-rates-'));
    started.keep(folder, () => rm(folder, { recursive: true }));
    const file = join(folder, 'session.toml');
    await writeFile(file, '[limits]\nsession_rate = 250\n');
    const server = await startServer({ lease: '2s', args: ['--config', file] });
    started.keep(server, () => server.kill());
    const client = connect(server.url, { WebSocket });
    started.keep(client, () => client.close());
    const { locks } = client;
    const unwanted = new AbortController();
    await locks.request('held', async (held) => {
      // More than the server reads ahead, and more leases than one until all of them are carried out.
      const options = { metadata: 'm'.repeat(500), signal: unwanted.signal };
      for (let n = 0; n < 1_600; n++) locks.request('held', options, () => {}).catch(() => {});
      const isFree = await locks.request('behind them', { ifAvailable: true }, (lock) => lock !== null);
      assert.ok(isFree);
      assert.equal(held.signal.aborted, false, String(held.signal.reason));
    });
    unwanted.abort();
  });
});
