// A server that lets no more agents in: requests end with that refusal, and the next one asks again.

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import WebSocket from 'ws';
import { connect } from '../dist/lockhouse.js';
import { cleanups, until } from './support/cleanup.mjs';
import { startServer } from './support/server.mjs';
import { forever, hold, open, start } from './support/session.mjs';

const FULL = {
  type: 'error',
  code: 'quota_exceeded',
  field: 'agent',
  rule: 'one of at most 3 of a bucket at once',
  message: 'agent must be one of at most 3 of a bucket at once',
  retryAfterMs: 1_000,
};
const unknown = (seq, id) => ({ type: 'error', seq, id, code: 'unknown_agent', message: 'agent is unknown' });

test('every request of an agent that may not join ends with that refusal, and the next one joins anew', async (t) => {
  const { peer, locks } = start(t);
  const early = [locks.request('a', assert.fail), locks.request('b', { steal: true }, assert.fail)];
  const server = await peer.connection();
  server.welcome();
  assert.equal((await server.next('join')).agent, 1);
  const ids = [(await server.next('request')).id, (await server.next('request')).id];
  server.send({ ...FULL, seq: 1 }, unknown(2, ids[0]), unknown(3, ids[1]));
  for (const request of early) {
    await assert.rejects(request, ({ name, detail, message }) => {
      assert.deepEqual([name, detail.code, detail.retryAfterMs], ['QuotaExceededError', 'quota_exceeded', 1_000]);
      assert.equal(message, FULL.message);
      return true;
    });
  }

  const later = locks.request('c', () => 'granted');
  assert.equal((await server.next('join')).agent, 2);
  const request = await server.next('request');
  assert.equal(request.agent, 2);
  server.send({ type: 'granted', seq: 4, id: request.id, token: 1 });
  assert.equal(await later, 'granted');
});

test('an error about the number of a frame refuses no agent', async (t) => {
  const opened = await open(t);
  const { released, release } = await hold(opened, 'n', 1, 1);
  opened.server.send({ type: 'error', seq: 2, code: 'bad_frame', field: 'n', message: 'n must be …' });
  release('held');
  assert.equal(await released, 'held');
});

test('a real bucket that is full says so, and takes the client once there is room', async (t) => {
  const started = cleanups();
  t.after(() => started.end());
  const folder = await mkdtemp(join(tmpdir(), 'lockhouse-joins-'));
  started.keep(folder, () => rm(folder, { recursive: true }));
  const file = join(folder, 'full.toml');
  // Each session is an agent by itself, and its client another one.
  await writeFile(file, '[limits]\nagents_per_bucket = 3\n');
  const server = await startServer({ args: ['--config', file] });
  started.keep(server, () => server.kill());
  const first = started.keep(connect(server.url, { WebSocket }), () => first.close());
  await first.locks.query();
  const second = started.keep(connect(server.url, { WebSocket }), () => second.close());
  const refusal = await second.locks.request('n', forever).catch((error) => error);
  assert.deepEqual([refusal.name, refusal.detail?.code], ['QuotaExceededError', 'quota_exceeded'], String(refusal));
  assert.ok(refusal.detail.retryAfterMs > 0);
  first.close();
  await until(() => second.locks.request('n', () => true).catch(() => false), 'the client is taken');
});
