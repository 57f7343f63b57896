// Claims against a scripted server: what each call sends, and what it makes of the answer.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { inspect } from 'node:util';
import { scriptedApi } from './support/api.mjs';

const EXPIRES = '2026-11-20T12:01:00.000Z';
const LATER = '2026-11-20T12:02:00.000Z';
const ASSIGNED = { resource: 'seat', claimant: 'me', assignedAt: EXPIRES, fencingToken: 7 };
const assignment = { ...ASSIGNED, assignedAt: new Date(EXPIRES) };

async function claim(t, resource = 'seat') {
  const api = await scriptedApi(t);
  const claiming = api.client.claims.claim(resource, { claimant: 'me' });
  const call = await api.next('POST', 'claims');
  call.reply(201, { resource, claimant: 'me', token: 'T0ken', expiresAt: EXPIRES, fencingToken: 7 });
  return { ...api, claim: await claiming };
}

describe('CL-002 a claim', () => {
  test('has its resource, claimant, token and expiry, and a fencing token', async (t) => {
    const { claim: mine } = await claim(t);
    assert.deepEqual(
      [mine.resource, mine.claimant, mine.token, mine.expiresAt, mine.fencingToken],
      ['seat', 'me', 'T0ken', new Date(EXPIRES), 7],
    );
  });

  test('shows its token to no log', async (t) => {
    const { claim: mine } = await claim(t);
    for (const shown of [inspect(mine, { depth: 9, showHidden: true }), JSON.stringify(mine)])
      assert.doesNotMatch(shown, /T0ken/);
  });

  test('is renewed, each attempt anew, and then ends later', async (t) => {
    const { claim: mine, next } = await claim(t);
    const renewing = mine.renew();
    const first = await next('POST', 'claims/renew');
    assert.deepEqual([first.body, first.key], [{ resource: 'seat', token: 'T0ken' }, undefined]);
    first.drop();
    (await next('POST', 'claims/renew')).reply(200, { resource: 'seat', expiresAt: LATER });
    await renewing;
    assert.deepEqual(mine.expiresAt, new Date(LATER));
  });

  test('is finalized, and tells of the assignment', async (t) => {
    const { claim: mine, next } = await claim(t);
    const finalizing = mine.finalize();
    const call = await next('POST', 'claims/finalize');
    assert.deepEqual(call.body, { resource: 'seat', token: 'T0ken' });
    call.reply(200, ASSIGNED);
    assert.deepEqual(await finalizing, assignment);
  });

  for (const [status, code, name] of [
    [409, 'claim_lost', 'ClaimLostError'],
    [410, 'claim_expired', 'ClaimExpiredError'],
  ]) {
    for (const method of ['renew', 'finalize', 'release']) {
      test(`that the server calls ${code} makes ${method}() reject with ${name}`, async (t) => {
        const { claim: mine, next } = await claim(t);
        const calling = mine[method]();
        (await next()).refuse(status, code);
        await assert.rejects(calling, { name });
      });
    }
  }

  test('is released', async (t) => {
    const { claim: mine, next } = await claim(t);
    const releasing = mine.release();
    const call = await next('POST', 'claims/release');
    assert.deepEqual(call.body, { resource: 'seat', token: 'T0ken' });
    call.reply(200, { resource: 'seat', released: true });
    await releasing;
  });

  for (const [status, code] of [
    [410, 'claim_expired'],
    [409, 'claim_lost'],
  ]) {
    test(`that is gone after a release whose answer was lost is released: ${code}`, async (t) => {
      const { claim: mine, next } = await claim(t);
      const releasing = mine.release();
      (await next()).drop();
      (await next()).refuse(status, code);
      await releasing;
    });
  }

  test('that is gone after a release that was refused for now is not', async (t) => {
    const { claim: mine, next } = await claim(t);
    const releasing = mine.release();
    (await next()).refuse(503, 'unavailable', { retryAfterMs: 1 });
    (await next()).refuse(410, 'claim_expired');
    await assert.rejects(releasing, { name: 'ClaimExpiredError' });
  });

  test('is told by its token alone, wherever that is kept', async (t) => {
    const { client, next } = await scriptedApi(t);
    const renewing = client.claims.renew('seat', 'T0ken');
    (await next('POST', 'claims/renew')).reply(200, { resource: 'seat', expiresAt: LATER });
    assert.deepEqual(await renewing, new Date(LATER));
    const finalizing = client.claims.finalize('seat', 'T0ken');
    (await next('POST', 'claims/finalize')).reply(200, ASSIGNED);
    assert.deepEqual(await finalizing, assignment);
    const releasing = client.claims.release('seat', 'T0ken');
    (await next('POST', 'claims/release')).reply(200, { resource: 'seat', released: true });
    await releasing;
  });

  test('WL-012 keeps the lone surrogates of its resource in every call', async (t) => {
    const { claim: mine, next } = await claim(t, 'a\ud800');
    const finalizing = mine.finalize();
    const call = await next();
    assert.equal(call.body.resource, 'a\ud800');
    call.refuse(410, 'claim_expired');
    await assert.rejects(finalizing);
  });
});

describe('an assignment', () => {
  test('is told, and null if there is none', async (t) => {
    const { client, next } = await scriptedApi(t);
    const asking = client.claims.assignment('row 1/seat é&7');
    const call = await next('GET', 'assignments?resource=row%201%2Fseat%20%C3%A9%267');
    assert.deepEqual([call.secret, call.key], [undefined, undefined]);
    call.reply(200, ASSIGNED);
    assert.deepEqual(await asking, assignment);
    const none = client.claims.assignment('free');
    (await next()).refuse(404, 'not_found');
    assert.equal(await none, null);
  });

  test('whose path is unknown is no null', async (t) => {
    const { client, next } = await scriptedApi(t);
    const asking = client.claims.assignment('a');
    (await next()).reply(404, 'a page of somebody else');
    await assert.rejects(asking, { code: 'status_404' });
  });

  test('is taken back, with a token only that one', async (t) => {
    const { client, next } = await scriptedApi(t);
    const taking = client.claims.unassign('seat');
    (await next('DELETE', 'assignments?resource=seat')).reply(200, { unassigned: true });
    await taking;
    const only = client.claims.unassign('seat', { fencingToken: 7 });
    const first = await next('DELETE', 'assignments?resource=seat&fencingToken=7');
    first.drop();
    const second = await next('DELETE', 'assignments?resource=seat&fencingToken=7');
    assert.ok(first.key);
    assert.equal(second.key, first.key, 'taken back once, however often it is asked');
    second.reply(200, { unassigned: false });
    await only;
  });

  test("of a name with a lone surrogate cannot be asked for, and nobody else's is taken for it", async (t) => {
    const { client, calls } = await scriptedApi(t);
    for (const method of ['assignment', 'unassign']) {
      await assert.rejects(client.claims[method]('a\ud800'), {
        name: 'TypeError',
        message: /^resource: .*lone surrogate/,
      });
    }
    assert.equal(calls.length, 0);
  });
});
