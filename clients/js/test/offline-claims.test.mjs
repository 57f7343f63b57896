// Offline locks and claims with the real server: from Node, and from a tab and a worker of another origin.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { WebSocket } from 'ws';
import { connect } from '../dist/lockhouse.js';
import { openWorker } from './support/agents.mjs';
import { assertSame } from './support/api.mjs';
import { bench, native, startLab, test } from './support/lab.mjs';

const write = (id, kind = 'customer') => ({ kind, id, intent: 'write' });
const read = (id, kind = 'customer') => ({ kind, id, intent: 'read' });
const elapse = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

if (!native) {
  describe('offline locks and claims', () => {
    let lab;
    before(async () => {
      lab = await startLab();
    });
    after(() => lab?.end());

    /** A client in a bucket of its own. */
    function open(t) {
      const { name } = bench(t, lab);
      const client = connect(lab.server.url, { WebSocket, bucket: name, clientId: 'node' });
      t.after(() => client.close());
      return client;
    }

    test('OL-001 OL-034 a second editor is refused at once, with the name of the first, until that one is done', async (t) => {
      const { offline } = open(t);
      const [anna, bob] = [await offline.open({ label: 'Anna' }), await offline.open({ label: 'Bob' })];
      const [grant] = await anna.lock([write('7')], { metadata: 'on the phone' });
      assert.deepEqual(
        { ...grant, fencingToken: 0 },
        { ...write('7'), mode: 'exclusive', name: 'customer/7', fencingToken: 0, how: 'fresh' },
      );
      const error = await bob.lock([write('8'), write('7')]).then(assert.fail, (thrown) => thrown);
      assert.equal(error.name, 'LockedError');
      assert.deepEqual(
        error.conflicts.map(({ kind, id, queued }) => [kind, id, queued]),
        [['customer', '7', 0]],
      );
      const [holder] = error.holders;
      assert.deepEqual(
        [holder.kind, holder.label, holder.owner, holder.metadata],
        ['offline', 'Anna', anna.id, 'on the phone'],
      );
      assert.ok(Math.abs(Date.now() - holder.since) < 60_000);
      assert.deepEqual(await bob.locks(), [], 'all or nothing');
      await anna.end();
      const [later] = await bob.lock([write('7')]);
      assert.ok(later.fencingToken > grant.fencingToken);
      await bob.end();
    });

    test('OL-010 OL-044 readers share, the sole reader may write, and what is held may be asked for again', async (t) => {
      const { offline } = open(t);
      const [anna, bob] = [await offline.open({ label: 'Anna' }), await offline.open({ label: 'Bob' })];
      const [first] = await anna.lock([read('7')]);
      await bob.lock([read('7')]);
      await assert.rejects(anna.lock([write('7')]), { name: 'LockedError' });
      assert.equal(await bob.unlock([{ kind: 'customer', id: '7' }]), 1);
      const [upgraded] = await anna.lock([write('7')]);
      assert.equal(upgraded.how, 'upgraded');
      assert.ok(upgraded.fencingToken > first.fencingToken);
      const [again] = await anna.lock([read('7')]);
      assert.deepEqual([again.how, again.fencingToken], ['alreadyHeld', upgraded.fencingToken]);
      assert.equal(
        await anna.unlock([{ kind: 'customer', id: '7', fencingToken: first.fencingToken }]),
        0,
        'not that grant',
      );
      assert.equal(await bob.unlock([{ kind: 'customer', id: '7' }]), 0, 'not his');
      await anna.lock([write('8'), write('9')]);
      assert.equal(await anna.unlockAll({ sparing: [{ kind: 'customer', id: '8' }] }), 2);
      assert.deepEqual(
        (await anna.locks()).map(({ id }) => id),
        ['8'],
      );
      assert.equal(await anna.unlockAll(), 1);
      await Promise.all([anna.end(), bob.end()]);
    });

    test('OL-040 the locks of a bucket are listed with who has them', async (t) => {
      const { offline } = open(t);
      const anna = await offline.open({ label: 'Anna' });
      await anna.lock([write('é/7'), write('8'), write('9', 'order')]);
      const listed = [];
      for await (const { kind, id, label, owner, mode } of offline.locks({ kind: 'customer' }))
        listed.push([kind, id, label, owner, mode]);
      assert.deepEqual(listed.sort(), [
        ['customer', '8', 'Anna', anna.id, 'exclusive'],
        ['customer', 'é/7', 'Anna', anna.id, 'exclusive'],
      ]);
      await anna.end();
    });

    test('OL-037 an owner lives by its heartbeats, and without them ends by its TTL', async (t) => {
      const { offline } = open(t);
      const alive = await offline.open({ label: 'alive', ttlMs: 900 });
      const silent = await offline.open({ label: 'silent', ttlMs: 900, heartbeats: false });
      await alive.lock([write('a')]);
      await silent.lock([write('s')]);
      await elapse(2_500);
      assert.deepEqual([alive.signal.aborted, silent.signal.aborted], [false, true]);
      assert.equal((await alive.locks()).length, 1);
      await assert.rejects(silent.locks(), { name: 'UnknownOwnerError' });
      await assert.rejects(offline.resume(silent.id, silent.secret), { name: 'UnknownOwnerError', status: 404 });
      await alive.lock([write('s')]);
      await alive.end();
    });

    for (const [title, call] of [
      ['releases', (owner) => owner.unlock([write('7')])],
      ['readings', (owner) => owner.locks()],
    ]) {
      test(`an owner lives by its ${title}, for its client and on the server`, async (t) => {
        const { offline } = open(t);
        const owner = await offline.open({ label: 'Anna', ttlMs: 1_000, heartbeats: false });
        await owner.lock([write('8')]);
        const end = performance.now() + 2_500;
        while (performance.now() < end) {
          await elapse(200);
          await call(owner);
        }
        assert.equal(owner.signal.aborted, false);
        assert.equal((await owner.locks()).length, 1);
      });
    }

    test('an owner is resumed by its secret only', async (t) => {
      const client = open(t);
      const anna = await client.offline.open({ label: 'Anna', metadata: 'desk', maxMs: 60_000 });
      await anna.lock([write('7')]);
      await assert.rejects(client.offline.resume(anna.id, `${anna.secret}x`), { name: 'UnauthorizedError' });
      const later = connect(lab.server.url, { WebSocket, bucket: client.name });
      t.after(() => later.close());
      const resumed = await later.offline.resume(anna.id, anna.secret);
      assert.deepEqual([resumed.label, resumed.ttlMs], ['Anna', anna.ttlMs]);
      assert.deepEqual(
        (await resumed.locks()).map(({ id }) => id),
        ['7'],
      );
      await resumed.end();
      await assert.rejects(anna.heartbeat(), { name: 'UnknownOwnerError' });
      assert.equal(anna.signal.aborted, true);
    });

    test('what breaks a rule is told with field, value and rule', async (t) => {
      const { offline, claims } = open(t);
      await assert.rejects(offline.open({ label: 'Anna', ttlMs: 0 }), {
        name: 'InvalidError',
        field: 'ttlMs',
        value: '0',
      });
      await assert.rejects(claims.claim('-a', { claimant: 'Anna' }), { name: 'InvalidError', field: 'resource' });
      await assert.rejects(offline.open({ label: 'x'.repeat(257) }), { name: 'InvalidError', field: 'label' });
    });

    test('CL-013 a stale worker cannot finalize, and the newer claim stands', async (t) => {
      const { claims } = open(t);
      const stale = await claims.claim('seat', { claimant: 'A', ttlMs: 300 });
      const refused = await claims.claim('seat', { claimant: 'B' }).then(assert.fail, (thrown) => thrown);
      assert.deepEqual([refused.name, refused.holder.label, refused.holder.kind], ['ClaimedError', 'A', 'claim']);
      assert.ok(refused.expiresAt instanceof Date);
      assert.doesNotMatch(JSON.stringify(refused), new RegExp(stale.token));
      await elapse(1_200);
      await assert.rejects(stale.finalize(), { name: 'ClaimExpiredError' });
      const fresh = await claims.claim('seat', { claimant: 'B' });
      assert.notEqual(fresh.token, stale.token);
      assert.ok(fresh.fencingToken > stale.fencingToken);
      await assert.rejects(stale.finalize(), { name: 'ClaimLostError' });
      await assert.rejects(stale.renew(), { name: 'ClaimLostError' });
      assert.equal(await claims.assignment('seat'), null);
      const assigned = await fresh.finalize();
      assert.deepEqual(
        [assigned.resource, assigned.claimant, assigned.fencingToken],
        ['seat', 'B', fresh.fencingToken],
      );
      assertSame(await fresh.finalize(), assigned);
      await assert.rejects(stale.finalize(), { name: 'ClaimLostError', claimant: 'B' });
      assertSame(await claims.assignment('seat'), assigned);
      await assert.rejects(claims.claim('seat', { claimant: 'C' }), { name: 'AlreadyAssignedError' });
      await claims.unassign('seat', { fencingToken: fresh.fencingToken + 1 });
      assertSame(await claims.assignment('seat'), assigned, 'that was another one');
      await claims.unassign('seat', { fencingToken: fresh.fencingToken });
      assert.equal(await claims.assignment('seat'), null);
      await claims.unassign('seat');
      await assert.rejects(fresh.finalize(), { name: 'ClaimExpiredError' });
    });

    test('CL-012 a claim that is released or renewed tells what it came to', async (t) => {
      const { claims } = open(t);
      const claim = await claims.claim('seat', { claimant: 'A', ttlMs: 60_000 });
      const before = claim.expiresAt;
      // Longer than a tick of the clock of leases.
      await elapse(700);
      await claim.renew();
      assert.ok(claim.expiresAt > before);
      await claim.release();
      await assert.rejects(claim.release(), { name: 'ClaimExpiredError' });
      await assert.rejects(claim.finalize(), { name: 'ClaimExpiredError' });
    });

    test('WL-012 names with lone surrogates are names like all others', async (t) => {
      const { claims } = open(t);
      const names = ['a\ud800', 'a\ud801', 'a\ufffd', '\udc00\ud800', 'a\u0000', ''];
      const made = [];
      for (const name of names) made.push(await claims.claim(name, { claimant: 'A' }));
      assert.deepEqual(
        made.map(({ resource }) => resource),
        names,
      );
      for (const claim of made) assert.equal((await claim.finalize()).resource, claim.resource);
    });

    test('in one bucket a name is one resource: Web Locks, offline locks and claims exclude each other', async (t) => {
      const { locks, offline, claims } = open(t);
      await locks.request('customer/7', async () => {
        const busy = await claims.claim('customer/7', { claimant: 'A' }).then(assert.fail, (thrown) => thrown);
        assert.deepEqual([busy.name, busy.holders[0].kind, busy.holders[0].label], ['BusyError', 'web', 'node']);
        const owner = await offline.open({ label: 'Anna' });
        const locked = await owner.lock([write('7')]).then(assert.fail, (thrown) => thrown);
        assert.equal(locked.holders[0].kind, 'web');
        await owner.end();
      });
      // A claim goes another way than the release, and may overtake it; what is sent after the release does
      // not.
      await locks.query();
      const claim = await claims.claim('customer/7', { claimant: 'A' });
      assert.equal(await locks.request('customer/7', { ifAvailable: true }, (lock) => lock), null);
      await claim.release();
      assert.equal(await locks.request('customer/7', { ifAvailable: true }, (lock) => lock?.name), 'customer/7');
    });

    for (const kind of ['tab', 'worker']) {
      test(`a ${kind} of another origin has them, too`, async (t) => {
        const { tab, name } = bench(t, lab);
        const page = await tab();
        const agent = kind === 'tab' ? page : await openWorker(page.page, lab.env);
        assert.deepEqual(await agent.edit(`${name}\ud800`), {
          granted: 'exclusive',
          refused: 'LockedError: Anna',
          resumed: 1,
          claimed: true,
          assigned: 'Anna',
        });
      });
    }
  });
}
