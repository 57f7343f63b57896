// The calls of the HTTP API against a scripted server: where they go, what is tried again, and how each of
// them ends.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as lockhouse from '../dist/lockhouse.js';
import { scriptedApi } from './support/api.mjs';

const classes = { ...lockhouse };
const CLAIM = { resource: 'seat', claimant: 'me', token: 'T', expiresAt: '2026-11-20T12:00:00.000Z', fencingToken: 7 };
const claim = ({ claims }, options) => claims.claim('seat', { claimant: 'me', ...options });

describe('the address of a call', () => {
  for (const [path, options, expected] of [
    ['/', {}, '/v1/buckets/default/claims'],
    ['/?bucket=a%20b%2Fc', {}, '/v1/buckets/a%20b%2Fc/claims'],
    ['/v1/ws?partition=p', { bucket: 'é' }, '/v1/buckets/%C3%A9/claims'],
    ['/locks/v1/ws', {}, '/locks/v1/buckets/default/claims'],
  ]) {
    test(`of ${path} is ${expected}`, async (t) => {
      const { client, next } = await scriptedApi(t, { path, ...options });
      const claimed = claim(client);
      const call = await next();
      assert.equal(call.url, expected);
      call.reply(201, CLAIM);
      await claimed;
    });
  }

  test('of another bucket has its name', async (t) => {
    const { client, next } = await scriptedApi(t);
    const other = client.bucket('other');
    const opened = other.offline.open({ label: 'me' });
    const call = await next();
    assert.equal(call.url, '/v1/buckets/other/owners');
    call.refuse(422, 'invalid');
    await assert.rejects(opened);
  });

  for (const [title, options, message] of [
    ['whose path does not end in /v1/ws', { path: '/sock' }, /^url: the path \/sock, but .* must end in \/v1\/ws$/],
    ['of the bucket "."', { bucket: '.' }, /^bucket: "\.", but/],
  ]) {
    test(`cannot be told for a URL ${title}: a TypeError`, async (t) => {
      const { client, calls } = await scriptedApi(t, options);
      await assert.rejects(claim(client), { name: 'TypeError', message });
      assert.equal(calls.length, 0);
    });
  }
});

describe('what is sent', () => {
  test('is JSON with a key of its own for each call, and no secret or cookie that was not asked for', async (t) => {
    const { client, next } = await scriptedApi(t);
    const first = claim(client, { ttlMs: 1_000, metadata: 'row 7' });
    const call = await next('POST', 'claims');
    assert.deepEqual(call.body, { resource: 'seat', claimant: 'me', ttlMs: 1_000, metadata: 'row 7' });
    assert.match(call.headers['content-type'], /^application\/json$/);
    assert.match(call.key, /^[0-9a-f]{8}-[0-9a-f-]{27}$/);
    assert.equal(call.secret, undefined);
    call.reply(201, CLAIM);
    await first;
    const second = claim(client);
    const other = await next('POST', 'claims');
    assert.notEqual(other.key, call.key);
    other.reply(201, CLAIM);
    await second;
  });

  test('WL-012 keeps the lone surrogates of a name, and so does the answer', async (t) => {
    const { client, next } = await scriptedApi(t);
    const resource = 'a\ud800\u0000\udc00\ud83d\ude00';
    const claimed = client.claims.claim(resource, { claimant: 'me' });
    const call = await next();
    assert.match(call.text, /\\ud800/);
    assert.equal(call.body.resource, resource);
    call.reply(201, JSON.stringify({ ...CLAIM, resource }));
    assert.equal((await claimed).resource, resource);
  });

  test('goes through the function that the option gives, with the client nowhere in it', async (t) => {
    const seen = [];
    const { client } = await scriptedApi(t, {
      async fetch(url, init) {
        seen.push([this, url, init.method]);
        return new Response(JSON.stringify(CLAIM), { status: 201 });
      },
    });
    await claim(client);
    assert.deepEqual(
      seen.map(([self, , method]) => [self, method]),
      [[undefined, 'POST']],
    );
  });
});

test('the error about an answer that broke off shows no part of it', async (t) => {
  const fetch = async () => new Response('{"resource":"r","token":lhs_a_secret', { status: 201 });
  const { client } = await scriptedApi(t, { fetch });
  await assert.rejects(client.claims.claim('r', { claimant: 'me', timeout: 300 }), (error) => {
    const shown = `${error.message} ${error.cause?.message} ${error.cause?.stack}`;
    return error.code === 'outcome_unknown' && !shown.includes('lhs');
  });
});

describe('what is tried again', () => {
  test('a connection that breaks: with the same key and the same body', async (t) => {
    const { client, next } = await scriptedApi(t);
    const claimed = claim(client);
    const first = await next();
    first.drop();
    const second = await next();
    assert.deepEqual([second.key, second.text], [first.key, first.text]);
    second.drop();
    const third = await next();
    assert.equal(third.key, first.key);
    third.reply(201, CLAIM);
    assert.equal((await claimed).fencingToken, 7);
  });

  test('an answer that breaks off', async (t) => {
    const { client, next } = await scriptedApi(t);
    const claimed = claim(client);
    const { response } = await next();
    response.writeHead(201, { 'content-type': 'application/json', 'content-length': '1000' });
    response.write('{"resource":');
    response.socket.end();
    (await next()).reply(201, CLAIM);
    await claimed;
  });

  test('503 after the pause that the problem names, and not before', async (t) => {
    const { client, next } = await scriptedApi(t);
    const claimed = claim(client);
    const first = await next();
    const startedAt = performance.now();
    first.refuse(503, 'recovering', { retryAfterMs: 300 }, { 'retry-after': '1' });
    const second = await next();
    const pausedMs = performance.now() - startedAt;
    assert.ok(pausedMs >= 295 && pausedMs < 900, `${pausedMs} ms`);
    assert.equal(second.key, first.key);
    second.reply(201, CLAIM);
    await claimed;
  });

  test('503 with no pause after a little while, so that the server is not stormed', async (t) => {
    const { client, next } = await scriptedApi(t);
    const startedAt = performance.now();
    const claimed = claim(client);
    for (let n = 0; n < 3; n++) (await next()).refuse(503, 'unavailable', { retryAfterMs: 0 });
    (await next()).reply(201, CLAIM);
    await claimed;
    assert.ok(performance.now() - startedAt >= 50 + 100 + 200, 'the pauses grow');
  });

  test('what is too much at once after the time that the server names, and not all together', async (t) => {
    const { client, next } = await scriptedApi(t);
    const claims = Array.from({ length: 8 }, () => claim(client));
    const refusedAt = new Map();
    const pauses = [];
    while (pauses.length < claims.length) {
      const call = await next();
      if (refusedAt.has(call.key)) {
        pauses.push(performance.now() - refusedAt.get(call.key));
        call.reply(201, CLAIM);
      } else {
        refusedAt.set(call.key, performance.now());
        call.refuse(429, 'rate_limited', { retryAfterMs: 200 }, { 'retry-after': '1' });
      }
    }
    await Promise.all(claims);
    // At random 50 to 100 ms more.
    assert.ok(Math.min(...pauses) >= 245, `${pauses} ms`);
    assert.ok(Math.max(...pauses) - Math.min(...pauses) > 1, `all together, ${pauses} ms`);
  });

  test('503 after Retry-After where the problem names no pause', async (t) => {
    const { client, next } = await scriptedApi(t);
    const claimed = claim(client);
    const first = await next();
    const startedAt = performance.now();
    first.refuse(503, 'unavailable', {}, { 'retry-after': '1' });
    (await next()).reply(201, CLAIM);
    const pausedMs = performance.now() - startedAt;
    assert.ok(pausedMs >= 990, `${pausedMs} ms`);
    await claimed;
  });

  test('the page of a gateway that found no server', async (t) => {
    const { client, next } = await scriptedApi(t);
    const claimed = claim(client);
    (await next()).reply(502, '<h1>Bad Gateway</h1>', { 'content-type': 'text/html' });
    (await next()).reply(201, CLAIM);
    await claimed;
  });

  test('what is still under way', async (t) => {
    const { client, next } = await scriptedApi(t);
    const claimed = claim(client);
    (await next()).refuse(409, 'conflict_in_flight');
    (await next()).reply(201, CLAIM);
    await claimed;
  });

  for (const [status, code] of [
    [400, 'bad_request'],
    [409, 'claimed'],
    [422, 'idempotency_mismatch'],
    [429, 'quota_exceeded'],
    [500, 'internal'],
  ]) {
    test(`not ${code}`, async (t) => {
      const { client, next, calls } = await scriptedApi(t);
      const claimed = claim(client);
      (await next()).refuse(status, code, { retryAfterMs: 1 });
      await assert.rejects(claimed, { code, status });
      assert.equal(calls.length, 1);
    });
  }
});

describe('the timeout of a call', () => {
  test('ends it with what was wrong last', async (t) => {
    const { client, next } = await scriptedApi(t);
    const claimed = claim(client, { timeout: 2_000 });
    claimed.catch(() => {});
    (await next()).refuse(409, 'conflict_in_flight');
    (await next()).refuse(503, 'unavailable', { retryAfterMs: 5_000 });
    await assert.rejects(claimed, { name: 'UnavailableError', code: 'unavailable', retryAfterMs: 5_000 });
  });

  for (const [status, code] of [
    [503, 'unavailable'],
    [429, 'rate_limited'],
    [429, 'quota_exceeded'],
    [403, 'forbidden'],
    [401, 'unauthenticated'],
  ]) {
    test(`ends it as unknown after a lost answer, whatever ${code} says of a later attempt`, async (t) => {
      const { client, next } = await scriptedApi(t);
      const claimed = claim(client, { timeout: 2_000 });
      const ended = claimed.then(
        () => null,
        () => null,
      );
      (await next()).drop();
      (await next()).refuse(status, code, { retryAfterMs: 5_000 });
      // Without a pause of the server's the call is tried again until its end.
      if (code === 'quota_exceeded') {
        let attempts = 0;
        for (;;) {
          const call = await Promise.race([next(), ended]);
          if (!call) break;
          call.refuse(status, code);
          attempts += 1;
        }
        assert.ok(attempts > 0);
      }
      await assert.rejects(claimed, { name: 'OutcomeUnknownError', code: 'outcome_unknown' });
    });
  }

  test('ends it with what is held, as that tells what became of the lost answer', async (t) => {
    const { client, next } = await scriptedApi(t);
    const claimed = claim(client, { timeout: 2_000 });
    claimed.catch(() => {});
    (await next()).drop();
    (await next()).refuse(409, 'claimed', { holders: [] });
    await assert.rejects(claimed, { name: 'ClaimedError' });
  });

  test('ends it at once if the server says that nothing helps before', async (t) => {
    const { client, next } = await scriptedApi(t);
    const startedAt = performance.now();
    const claimed = claim(client, { timeout: 20_000 });
    (await next()).refuse(503, 'recovering', { retryAfterMs: 60_000 });
    await assert.rejects(claimed, { name: 'RecoveringError', retryAfterMs: 60_000 });
    assert.ok(performance.now() - startedAt < 10_000);
  });

  test('ends an attempt that is never answered, and its connection', async (t) => {
    const { client, next } = await scriptedApi(t);
    const claimed = claim(client, { timeout: 200 });
    claimed.catch(() => {});
    const { socket } = await next();
    const closed = new Promise((resolve) => socket.once('close', resolve));
    await assert.rejects(claimed, { name: 'OutcomeUnknownError', status: 0, message: /no answer within/ });
    await closed;
  });

  test('ends a question that is never answered, which has changed nothing', async (t) => {
    const { client, next } = await scriptedApi(t);
    const asked = client.claims.assignment('seat', { timeout: 200 });
    // It may end before the call is seen here.
    const ends = assert.rejects(asked, { name: 'UnreachableError', status: 0, message: /no answer within/ });
    await next();
    await ends;
  });

  for (const timeout of [0, -1, Number.NaN, 'soon']) {
    test(`${timeout} is refused with a TypeError`, async (t) => {
      const { client, calls } = await scriptedApi(t);
      await assert.rejects(claim(client, { timeout }), { name: 'TypeError', message: /^timeout: / });
      assert.equal(calls.length, 0);
    });
  }
});

describe('a call that is given up', () => {
  const reason = { why: 'changed my mind' };
  const isReason = (error) => error === reason;

  test('before it is sent is never sent', async (t) => {
    const { client, calls } = await scriptedApi(t);
    await assert.rejects(claim(client, { signal: AbortSignal.abort(reason) }), isReason);
    assert.equal(calls.length, 0);
  });

  test('under way rejects with the reason of the signal, and its connection ends', async (t) => {
    const { client, next } = await scriptedApi(t);
    const controller = new AbortController();
    const claimed = claim(client, { signal: controller.signal });
    claimed.catch(() => {});
    const { socket } = await next();
    const closed = new Promise((resolve) => socket.once('close', resolve));
    controller.abort(reason);
    await assert.rejects(claimed, isReason);
    await closed;
  });

  test('in a pause rejects at once, and nothing is sent any more', async (t) => {
    const { client, next, calls } = await scriptedApi(t);
    const controller = new AbortController();
    const claimed = claim(client, { signal: controller.signal, timeout: 60_000 });
    claimed.catch(() => {});
    (await next()).refuse(503, 'unavailable', { retryAfterMs: 30_000 });
    await new Promise((resolve) => setTimeout(resolve, 50));
    controller.abort(reason);
    await assert.rejects(claimed, isReason);
    assert.equal(calls.length, 1);
  });

  test('by close() rejects with an AbortError, and so does every later one', async (t) => {
    const { client, next } = await scriptedApi(t);
    const claimed = claim(client);
    claimed.catch(() => {});
    await next();
    client.close();
    await assert.rejects(claimed, { name: 'AbortError', message: /closed/ });
    await assert.rejects(claim(client), { name: 'InvalidStateError' });
  });
});

test('many calls with one signal listen to it once', async (t) => {
  const warnings = [];
  const warned = ({ message }) => warnings.push(message);
  process.on('warning', warned);
  t.after(() => process.off('warning', warned));
  const controller = new AbortController();
  const { client, next } = await scriptedApi(t);
  const claimed = Array.from({ length: 20 }, () => claim(client, { signal: controller.signal }));
  for (const each of claimed) each.catch(() => {});
  for (let n = 0; n < 10; n++) (await next()).reply(201, CLAIM);
  for (let n = 10; n < 20; n++) await next();
  controller.abort('enough');
  const ends = await Promise.allSettled(claimed);
  assert.equal(ends.filter(({ reason }) => reason === 'enough').length, 10);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(warnings, []);
});

describe('the error for a problem', () => {
  const SINCE = '2026-11-20T12:00:00.000Z';
  const UNTIL = '2026-11-20T12:01:00.500Z';
  const raw = {
    kind: 'offline',
    label: 'Anna',
    owner: '17',
    mode: 'exclusive',
    since: SINCE,
    expiresAt: UNTIL,
    metadata: 'edits',
  };
  const holder = { ...raw, since: new Date(SINCE), expiresAt: new Date(UNTIL) };
  const bare = {
    kind: 'web',
    label: 'tab',
    owner: null,
    mode: 'shared',
    since: SINCE,
    expiresAt: null,
    metadata: null,
  };
  const bareHolder = { kind: 'web', label: 'tab', mode: 'shared', since: new Date(SINCE) };

  for (const [status, code, name, members, expected] of [
    [
      422,
      'invalid',
      'InvalidError',
      { field: 'ttlMs', value: '0', rule: 'an integer' },
      { field: 'ttlMs', value: '0', rule: 'an integer' },
    ],
    [400, 'bad_request', 'InvalidError', {}, { field: undefined }],
    [
      423,
      'locked',
      'LockedError',
      { conflicts: [{ kind: 'customer', id: '7', holders: [raw, bare], queued: 2 }] },
      {
        conflicts: [{ kind: 'customer', id: '7', holders: [holder, bareHolder], queued: 2 }],
        holders: [holder, bareHolder],
      },
    ],
    [409, 'claimed', 'ClaimedError', { holders: [raw], expiresAt: UNTIL }, { holder, expiresAt: new Date(UNTIL) }],
    [409, 'busy', 'BusyError', { holders: [bare], queued: 3 }, { holders: [bareHolder], queued: 3 }],
    [409, 'already_assigned', 'AlreadyAssignedError', { assignment: { claimant: 'B' } }, { claimant: 'B' }],
    [409, 'claim_lost', 'ClaimLostError', { assignment: { claimant: 'B' } }, { claimant: 'B' }],
    [409, 'claim_lost', 'ClaimLostError', {}, { claimant: undefined }],
    [410, 'claim_expired', 'ClaimExpiredError', {}, {}],
    [
      409,
      'lock_lost',
      'LocksLostError',
      { lost: [{ name: 'customer/7', kind: 'customer', id: '7' }] },
      { lost: [{ kind: 'customer', id: '7', name: 'customer/7' }] },
    ],
    [404, 'unknown_owner', 'UnknownOwnerError', {}, {}],
    [401, 'unauthorized', 'UnauthorizedError', {}, {}],
    [403, 'forbidden', 'ProblemError', {}, {}],
    [418, 'from_the_future', 'ProblemError', {}, {}],
  ]) {
    test(`${code} is a ${name} with what it tells`, async (t) => {
      const { client, next } = await scriptedApi(t);
      const claimed = claim(client);
      (await next()).refuse(status, code, members);
      const error = await claimed.then(assert.fail, (thrown) => thrown);
      assert.ok(error instanceof classes[name] && error instanceof classes.ProblemError && error instanceof Error);
      assert.deepEqual([error.name, error.code, error.status, error.message], [name, code, status, `it is ${code}`]);
      for (const [key, value] of Object.entries(expected)) assert.deepEqual(error[key], value, key);
    });
  }

  test('without a problem has the status', async (t) => {
    const { client, next } = await scriptedApi(t);
    const claimed = claim(client);
    (await next()).reply(404, 'nothing here', { 'content-type': 'text/plain' });
    await assert.rejects(claimed, {
      name: 'ProblemError',
      code: 'status_404',
      status: 404,
      message: /status 404/,
    });
  });

  test('of a server that cannot be reached has its cause', async (t) => {
    const cause = new TypeError('no route');
    const { client } = await scriptedApi(t, { fetch: () => Promise.reject(cause) });
    const unknown = { name: 'OutcomeUnknownError', code: 'outcome_unknown', status: 0, cause };
    await assert.rejects(claim(client, { timeout: 1 }), unknown);
    const question = client.claims.assignment('seat', { timeout: 1 });
    await assert.rejects(question, { name: 'UnreachableError', code: 'unreachable', cause });
  });

  test('of a server that is absent names its address and the reason', async (t) => {
    for (const [behind, reason] of [
      [new Error('connect ECONNREFUSED 127.0.0.1:7420'), 'connect ECONNREFUSED 127.0.0.1:7420'],
      [
        new AggregateError([new Error('refused by ::1'), new Error('refused by 127.0.0.1')]),
        'refused by ::1, refused by 127.0.0.1',
      ],
      [Object.assign(new Error(''), { code: 'ECONNREFUSED' }), 'ECONNREFUSED'],
    ]) {
      const cause = new TypeError('fetch failed', { cause: Object.assign(behind, { code: 'ECONNREFUSED' }) });
      const { client, origin } = await scriptedApi(t, { fetch: () => Promise.reject(cause) });
      const message = `The lock server at ${origin} cannot be reached: TypeError: fetch failed (${reason})`;
      await assert.rejects(claim(client, { timeout: 1 }), { name: 'UnreachableError', message, cause });
    }
  });

  test('of a port to which fetch never connects fails at once, and says why', async (t) => {
    const cause = new TypeError('fetch failed', { cause: new Error('bad port') });
    let calls = 0;
    const { client } = await scriptedApi(t, {
      fetch: () => {
        calls += 1;
        return Promise.reject(cause);
      },
    });
    await assert.rejects(claim(client, { timeout: 5_000 }), { name: 'UnreachableError', message: /bad port/ });
    assert.equal(calls, 1);
  });

  test('of a server that does not listen says that nothing has happened', async (t) => {
    for (const why of [
      { code: 'ECONNREFUSED' },
      { code: 'ENOTFOUND' },
      { code: 'EHOSTUNREACH', syscall: 'connect' },
      { message: 'bad port' },
      { code: 'ERR_SSL_WRONG_VERSION_NUMBER' },
      { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' },
    ]) {
      const cause = new TypeError('fetch failed', { cause: why });
      const { client } = await scriptedApi(t, { fetch: () => Promise.reject(cause) });
      await assert.rejects(claim(client, { timeout: 1 }), { name: 'UnreachableError', code: 'unreachable', cause });
    }
    const { createServer } = await import('node:net');
    const gone = createServer();
    await new Promise((resolve) => gone.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${gone.address().port}`;
    await new Promise((resolve) => gone.close(resolve));
    const { client } = await scriptedApi(t, {
      fetch: (target, init) => fetch(`${url}${new URL(target).pathname}`, init),
    });
    await assert.rejects(claim(client, { timeout: 300 }), { name: 'UnreachableError', code: 'unreachable' });
  });
});

describe('a call whose outcome is unknown', () => {
  test('is made again with the same key, after the time that the server names', async (t) => {
    const { client, next } = await scriptedApi(t);
    const claimed = claim(client);
    const first = await next();
    const startedAt = performance.now();
    first.refuse(504, 'outcome_unknown', { retryAfterMs: 300 });
    const second = await next();
    assert.ok(performance.now() - startedAt >= 295);
    assert.equal(second.key, first.key);
    second.reply(201, CLAIM);
    await claimed;
  });

  test('rejects with an error of its own once the timeout is over', async (t) => {
    const { client, next } = await scriptedApi(t);
    const claimed = claim(client, { timeout: 400 });
    claimed.catch(() => {});
    (await next()).refuse(504, 'outcome_unknown', { retryAfterMs: 1_000 });
    const error = await claimed.then(assert.fail, (thrown) => thrown);
    assert.ok(error instanceof classes.OutcomeUnknownError && error instanceof classes.ProblemError);
    assert.deepEqual(
      [error.name, error.code, error.status, error.retryAfterMs, error.message],
      ['OutcomeUnknownError', 'outcome_unknown', 504, 1_000, 'it is outcome_unknown'],
    );
  });

  test('is that of a proxy, and of a server that failed', async (t) => {
    for (const [status, code] of [
      [502, 'status_502'],
      [503, 'status_503'],
      [504, 'status_504'],
      [500, 'internal'],
    ]) {
      const { client, next } = await scriptedApi(t);
      const claimed = claim(client, { timeout: code === 'internal' ? 20_000 : 2_000 });
      claimed.catch(() => {});
      const call = await next();
      if (code === 'internal') call.refuse(status, code);
      else call.reply(status, '<h1>Bad Gateway</h1>', { 'content-type': 'text/html', 'retry-after': '60' });
      await assert.rejects(claimed, { name: 'OutcomeUnknownError', code, status });
    }
  });

  for (const [title, end] of [
    ['whose connection breaks', (call) => call.drop()],
    ['whose outcome the server does not know', (call) => call.refuse(504, 'outcome_unknown', { retryAfterMs: 1 })],
    ['that a proxy did not bring back', (call) => call.reply(502, '')],
  ]) {
    test(`is not made again if it takes back whatever is assigned: one ${title}`, async (t) => {
      const { client, next, calls } = await scriptedApi(t);
      const unassigned = client.claims.unassign('seat');
      unassigned.catch(() => {});
      const call = await next();
      assert.equal(call.key, undefined);
      end(call);
      await assert.rejects(unassigned, { name: 'OutcomeUnknownError' });
      assert.equal(calls.length, 1);
      const only = client.claims.unassign('seat', { fencingToken: 7 });
      end(await next());
      (await next()).reply(200, { unassigned: true });
      await only;
    });
  }

  test('is made again if it was refused before it could be done', async (t) => {
    const { client, next } = await scriptedApi(t);
    const unassigned = client.claims.unassign('seat');
    (await next()).refuse(503, 'unavailable', { retryAfterMs: 1 });
    (await next()).reply(200, { unassigned: true });
    await unassigned;
  });
});

describe('an impossible number or date', () => {
  const NUMBERS = ['-1', '1.5', '9007199254740992', '18446744073709551615', '1e400', '"1"'];
  const HOLDER = { kind: 'claim', label: 'other', mode: 'exclusive' };
  const lost = (member) => ({ name: 'NetworkError', message: new RegExp(`${member} is missing or impossible`) });

  for (const number of [...NUMBERS, '0']) {
    test(`${number} as a fencing token is an error that names it`, async (t) => {
      const { client, next } = await scriptedApi(t);
      const claimed = claim(client);
      (await next()).reply(201, JSON.stringify(CLAIM).replace('"fencingToken":7', `"fencingToken":${number}`));
      await assert.rejects(claimed, { ...lost('fencingToken'), name: 'OutcomeUnknownError', code: 'outcome_unknown' });
    });
  }

  for (const number of NUMBERS) {
    test(`${number} in a refusal is an error that names it`, async (t) => {
      const { client, next } = await scriptedApi(t);
      const claimed = claim(client);
      (await next()).reply(409, `{"code":"busy","queued":${number},"holders":[]}`);
      await assert.rejects(claimed, lost('queued'));
      const other = claim(client);
      (await next()).reply(409, JSON.stringify({ code: 'claimed', holders: [{ ...HOLDER, since: '9999999-01-01' }] }));
      await assert.rejects(other, lost('since'));
    });
  }

  test('as a time to come again is no pause', async (t) => {
    for (const number of ['-1', '"1"', 'null']) {
      const { client, next } = await scriptedApi(t);
      const claimed = claim(client);
      (await next()).reply(503, `{"code":"unavailable","retryAfterMs":${number}}`);
      (await next()).reply(201, CLAIM);
      await claimed;
    }
    for (const number of ['1e400', '18446744073709551615']) {
      const { client, next } = await scriptedApi(t);
      const claimed = claim(client);
      (await next()).reply(503, `{"code":"unavailable","retryAfterMs":${number}}`);
      await assert.rejects(claimed, { name: 'UnavailableError' });
    }
  });
});

describe('a value that cannot be meant', () => {
  const record = { kind: 'a', id: '1', intent: 'read' };
  const facts = { owner: '17', ownerSecret: 's', label: 'me', ttlMs: 600_000, expiresAt: CLAIM.expiresAt };
  const message = (field, value, rule) => ({
    name: 'TypeError',
    message: `${field}: ${value}, but it must be ${rule}`,
  });
  const finite = 'a finite number';
  // No error repeats a secret.
  const secret = (field) => ({
    name: 'TypeError',
    message: `${field}: must be a string of 1 to 8192 visible ASCII characters`,
  });

  for (const [title, call, error] of [
    ['ttlMs of a claim', (c) => claim(c, { ttlMs: Infinity }), message('ttlMs', 'Infinity', finite)],
    ['ttlMs that is no number', (c) => claim(c, { ttlMs: NaN }), message('ttlMs', 'NaN', finite)],
    [
      'ttlMs of an owner',
      (c) => c.offline.open({ label: 'me', ttlMs: Infinity }),
      message('ttlMs', 'Infinity', finite),
    ],
    ['maxMs of an owner', (c) => c.offline.open({ label: 'me', maxMs: NaN }), message('maxMs', 'NaN', finite)],
    ['a function as a TTL', (c) => claim(c, { ttlMs: () => 5 }), message('ttlMs', 'a function', finite)],
    [
      'heartbeats that are neither on nor off',
      (c) => c.offline.open({ label: 'me', heartbeats: 'no' }),
      message('heartbeats', '"no"', 'true or false'),
    ],
    [
      'a timeout that is a text',
      (c) => claim(c, { timeout: '500' }),
      message('timeout', '"500"', 'a number of milliseconds above 0'),
    ],
    [
      'a timeout of null',
      (c) => claim(c, { timeout: null }),
      message('timeout', 'null', 'a number of milliseconds above 0'),
    ],
    ['a signal of no type', (c) => claim(c, { signal: {} }), message('signal', '[object Object]', 'an AbortSignal')],
    ['no resource', (c) => c.claims.claim(undefined, { claimant: 'me' }), message('resource', 'undefined', 'a string')],
    ['a resource to renew', (c) => c.claims.renew(7, 'T'), message('resource', '7', 'a string')],
    ['a resource to ask for', (c) => c.claims.assignment(null), message('resource', 'null', 'a string')],
    [
      'the token of an assignment',
      (c) => c.claims.unassign('seat', { fencingToken: null }),
      message('fencingToken', 'null', 'an integer'),
    ],
    ['an owner without an id', (c) => c.offline.resume(undefined, 's'), message('id', 'undefined', 'a string')],
    ['an owner without a secret', (c) => c.offline.resume('17'), secret('secret')],
    ['a filter', (c) => c.offline.locks({ kind: null }).next(), message('kind', 'null', 'a string')],
  ]) {
    test(`${title}: the error names field, value and rule, and nothing is called`, async (t) => {
      const { client, calls } = await scriptedApi(t);
      await assert.rejects(call(client), error);
      assert.equal(calls.length, 0);
    });
  }

  test('as a token of a lock releases nothing', async (t) => {
    const { client, next, calls } = await scriptedApi(t);
    const opening = client.offline.open({ label: 'me', heartbeats: false });
    (await next()).reply(201, facts);
    const owner = await opening;
    const token = (list) => message(`${list}[0].fencingToken`, 'NaN', 'an integer');
    await assert.rejects(owner.unlock([{ ...record, fencingToken: NaN }]), token('locks'));
    await assert.rejects(owner.unlockAll({ holding: [{ ...record, fencingToken: NaN }] }), token('holding'));
    assert.equal(calls.length, 1);
  });

  test('is not that of locks to be spared, which may be any iterable', async (t) => {
    const { client, next } = await scriptedApi(t);
    const opening = client.offline.open({ label: 'me', heartbeats: false });
    (await next()).reply(201, facts);
    const owner = await opening;
    const releasing = owner.unlockAll({ sparing: new Set([record]) });
    const call = await next('POST', 'locks/release');
    assert.deepEqual(call.body.sparing, [{ kind: 'a', id: '1' }]);
    call.reply(200, { released: 0 });
    await releasing;
    await assert.rejects(owner.unlockAll({ sparing: 7 }), { name: 'TypeError' });
  });
});

test('a success that is not what the API says leaves the outcome unknown and names the member', async (t) => {
  for (const [wrong, member] of [
    [{ token: undefined }, /token is missing/],
    [{ fencingToken: '7' }, /fencingToken/],
    [{ expiresAt: 'soon' }, /expiresAt/],
  ]) {
    const { client, next } = await scriptedApi(t);
    const claimed = claim(client);
    (await next()).reply(201, { ...CLAIM, ...wrong });
    await assert.rejects(claimed, { name: 'OutcomeUnknownError', message: member });
  }
});

describe('an answer that no lockhouse server gives', () => {
  const OWNER = {
    owner: '1',
    ownerSecret: 'A'.repeat(32),
    label: 'me',
    ttlMs: 60_000,
    expiresAt: '2099-01-01T00:00:00Z',
  };
  const token = 'A'.repeat(32);
  const changes = {
    claim: ({ claims }) => claims.claim('seat', { claimant: 'me' }),
    renew: ({ claims }) => claims.renew('seat', token),
    release: ({ claims }) => claims.release('seat', token),
    finalize: ({ claims }) => claims.finalize('seat', token),
    unassign: ({ claims }) => claims.unassign('seat', { fencingToken: 7 }),
    open: ({ offline }) => offline.open({ label: 'me' }),
    lock: (_, owner) => owner.lock([{ kind: 'customer', id: '42', intent: 'write' }]),
    unlock: (_, owner) => owner.unlock([{ kind: 'customer', id: '42', fencingToken: 7 }]),
    unlockAll: (_, owner) => owner.unlockAll(),
    heartbeat: (_, owner) => owner.heartbeat(),
  };
  const questions = {
    assignment: ({ claims }) => claims.assignment('seat'),
    locks: (_, owner) => owner.locks(),
    'all locks': ({ offline }) => offline.locks().next(),
  };
  const BODIES = [
    [200, ''],
    [200, '{}'],
    [200, '[]'],
    [200, 'null'],
    [200, '{"token":null}'],
    [201, '{"locks":[]}'],
    [204, ''],
  ];

  /** A client whose calls are all answered so, but for the one that opens an owner. */
  async function answered(t, status, body) {
    let opening = true;
    const { client } = await scriptedApi(t, {
      async fetch() {
        const answer = opening ? [JSON.stringify(OWNER), 201] : [body === '' ? null : body, status];
        opening = false;
        return new Response(answer[0], { status: answer[1] });
      },
    });
    const owner = await client.offline.open({ label: 'me', heartbeats: false });
    return { client, owner };
  }

  for (const [status, body] of BODIES) {
    test(`such as ${status} with ${JSON.stringify(body)} is no success`, async (t) => {
      const { client, owner } = await answered(t, status, body);
      for (const [name, call] of Object.entries(changes)) {
        // That of another lock.
        await assert.rejects(call(client, owner), { name: 'OutcomeUnknownError' }, name);
      }
      for (const [name, call] of Object.entries(questions)) {
        if (name.includes('locks') && body.includes('locks')) continue;
        await assert.rejects(call(client, owner), { name: 'UnreachableError', code: 'not_lockhouse' }, name);
      }
    });
  }

  test('does not renew an owner', async (t) => {
    const { owner } = await answered(t, 200, '{}');
    const before = owner.expiresAt;
    await assert.rejects(owner.heartbeat(), { name: 'OutcomeUnknownError' });
    assert.deepEqual(owner.expiresAt, before);
  });

  test('is no end of an owner but 204', async (t) => {
    const { owner } = await answered(t, 200, '');
    await assert.rejects(owner.end(), { name: 'OutcomeUnknownError' });
  });

  for (const status of [301, 302, 303, 307, 308]) {
    test(`such as a redirect with ${status} is not followed, and the error says where it leads`, async (t) => {
      const other = await scriptedApi(t);
      const { client, next } = await scriptedApi(t, { key: 'secret' });
      const claimed = claim(client);
      (await next()).reply(status, '', { location: `${other.origin}/elsewhere` });
      const expected = { name: 'UnreachableError', code: 'not_lockhouse', message: /leads to .*\/elsewhere; connect/ };
      await assert.rejects(claimed, expected);
      const events = client.events();
      const first = events.next();
      (await next()).reply(status, '', { location: `${other.origin}/elsewhere` });
      await assert.rejects(first, expected);
      assert.equal(other.calls.length, 0);
    });
  }
});
