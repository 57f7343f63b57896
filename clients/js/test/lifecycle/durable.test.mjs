// State that was reported as durable outlives the server: killed and started again on the same database, it
// knows owners, locks, claims and assignments.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe } from 'node:test';
import { WebSocket } from 'ws';
import { connect } from '../../dist/lockhouse.js';
import { assertSame } from '../support/api.mjs';
import { bench, native, startLab, test } from '../support/lab.mjs';
import { startServer } from '../support/server.mjs';

const LEASE_MS = 2000;
const lease = `${LEASE_MS}ms`;
const record = { kind: 'customer', id: '7', intent: 'write' };

if (!native) {
  describe('offline locks and claims over a restart of the server', () => {
    let lab;
    let folder;
    let args;
    before(async () => {
      folder = await mkdtemp(join(tmpdir(), 'lockhouse-'));
      args = ['--store', `sqlite:${join(folder, 'locks.db')}`];
      lab = await startLab({ lease, serverArgs: () => args, browser: false });
    });
    after(async () => {
      await lab?.end();
      await rm(folder, { recursive: true, force: true });
    });

    /** A client in a bucket of its own; with an announced Web Lock, so that the bucket has to recover. */
    async function open(t) {
      const { name } = bench(t, lab);
      const client = connect(lab.server.url, { WebSocket, bucket: name });
      t.after(() => client.close());
      await client.locks.request('told', () => {});
      return client;
    }

    async function restart() {
      const { port } = lab.server;
      await lab.server.kill();
      lab.server = await startServer({ port, lease, args });
    }

    test('owners keep their locks, claims their resources, and assignments stand', async (t) => {
      const { offline, claims } = await open(t);
      const anna = await offline.open({ label: 'Anna' });
      const [grant] = await anna.lock([record], { metadata: 'edits' });
      const claim = await claims.claim('seat/1', { claimant: 'Anna' });
      const assigned = await (await claims.claim('seat/2', { claimant: 'Anna' })).finalize();
      await restart();
      const bob = await offline.open({ label: 'Bob' });
      const error = await bob.lock([record]).then(assert.fail, (thrown) => thrown);
      assert.deepEqual(
        [error.name, error.holders[0].label, error.holders[0].metadata],
        ['LockedError', 'Anna', 'edits'],
      );
      assert.deepEqual(
        (await anna.locks()).map(({ fencingToken }) => fencingToken),
        [grant.fencingToken],
      );
      await assert.rejects(claims.claim('seat/1', { claimant: 'Bob' }), { name: 'ClaimedError' });
      await assert.rejects(claims.claim('seat/2', { claimant: 'Bob' }), { name: 'AlreadyAssignedError' });
      assertSame(await claims.assignment('seat/2'), assigned);
      assert.equal((await claim.finalize()).claimant, 'Anna');
      await anna.end();
      const [later] = await bob.lock([record]);
      assert.ok(later.fencingToken > grant.fencingToken, 'tokens go on growing');
    });

    test('a call that is made while the server is away succeeds when it has recovered', async (t) => {
      const { offline, claims } = await open(t);
      const anna = await offline.open({ label: 'Anna' });
      const { port } = lab.server;
      await lab.server.kill();
      const startedAt = performance.now();
      const locking = anna.lock([record]);
      const claiming = claims.claim('seat', { claimant: 'Anna' });
      lab.server = await startServer({ port, lease, args });
      const [[grant], claim] = await Promise.all([locking, claiming]);
      assert.equal(grant.how, 'fresh');
      assert.ok(claim.token);
      assert.ok(performance.now() - startedAt >= LEASE_MS, 'before the recovery was over');
    });

    test('while the server recovers a call with a short timeout is told so, and what ends things works', async (t) => {
      const { offline, claims } = await open(t);
      const anna = await offline.open({ label: 'Anna' });
      await anna.lock([record]);
      const claim = await claims.claim('seat', { claimant: 'Anna' });
      await restart();
      const error = await claims
        .claim('other', { claimant: 'Bob', timeout: 500 })
        .then(assert.fail, (thrown) => thrown);
      assert.equal(error.name, 'RecoveringError');
      assert.ok(error.retryAfterMs > 0 && error.retryAfterMs <= LEASE_MS, `${error.retryAfterMs} ms`);
      await claim.renew();
      assert.equal((await claim.finalize({ timeout: 500 })).claimant, 'Anna');
      assert.equal(await anna.unlockAll({ timeout: 500 }), 1);
      await anna.end({ timeout: 500 });
    });
  });
}
