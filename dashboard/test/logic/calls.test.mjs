// Calls of the HTTP API: what their answers say of the caller, breaks, and the entries of a name.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { load } from './support.mjs';

const { access, call, inBucket, learnOperate, mayOperate, useKey } = await load('data/api.ts');
const { breakAll, faultOfReason, holdOf, targetOf } = await load('data/breaking.ts');
const { loadName } = await load('data/one-name.ts');
const { follow } = await load('data/stream.ts');

const fetchOfNode = globalThis.fetch;
beforeEach(() => useKey('lhk_of_a_test'));
afterEach(() => {
  globalThis.fetch = fetchOfNode;
});

/** Answers each call with what `answer` makes of its path and options: a status and a body. */
function answering(answer) {
  const calls = [];
  globalThis.fetch = async (path, options) => {
    calls.push({ path, ...options });
    const [status, body] = answer(path, options);
    return new Response(JSON.stringify(body), { status });
  };
  return calls;
}

const FORBIDDEN = [403, { code: 'forbidden', detail: 'no permission', permission: 'operate' }];

describe('a refusal for want of the permission to operate', () => {
  test('counts in its bucket alone', async () => {
    answering(() => FORBIDDEN);
    await assert.rejects(call('GET', inBucket('a/ü', 'sessions')));
    assert.equal(mayOperate('a/ü'), false);
    assert.equal(mayOperate('orders'), undefined);
  });

  test('of the fleet says nothing of any bucket', async () => {
    answering(() => FORBIDDEN);
    await assert.rejects(call('GET', '/v1/cluster'));
    assert.equal(mayOperate('default'), undefined);
    assert.equal(access.operate.value.size, 0);
  });

  test('is forgotten with the key', async () => {
    answering(() => FORBIDDEN);
    await assert.rejects(call('GET', inBucket('orders', 'sessions')));
    useKey('lhk_another');
    assert.equal(mayOperate('orders'), undefined);
  });
});

test('an answer to a former key says nothing of the present one', async () => {
  answering(() => {
    useKey('lhk_another');
    return [401, { code: 'unauthenticated', detail: 'no such key' }];
  });
  await assert.rejects(call('GET', inBucket('orders', 'query')));
  assert.equal(access.isRefused.value, false);
  assert.equal(access.wanted.value, undefined);
});

describe('whether the caller may operate', () => {
  const { signal } = new AbortController();

  for (const [what, answer, expected] of [
    ['is known from the list of sessions', [200, { sessions: [], next: null }], true],
    ['is known from its refusal', FORBIDDEN, false],
    ['is left to the attempt where there is no such answer', [503, { code: 'unavailable', detail: 'later' }], true],
    ['is not known of an unknown caller', [401, { code: 'unauthenticated', detail: 'no such key' }], undefined],
  ]) {
    test(what, async () => {
      const calls = answering(() => answer);
      await learnOperate('orders', signal);
      assert.equal(mayOperate('orders'), expected);
      assert.deepEqual(
        calls.map(({ method, path }) => `${method} ${path}`),
        ['GET /v1/buckets/orders/sessions?limit=1'],
      );
    });
  }
});

describe('a break', () => {
  const targets = Array.from({ length: 130 }, (_, at) => ({
    name: `n/${at}`,
    fencingToken: at + 1,
    holder: 'h',
    kind: 'web',
  }));
  const NO_REASON = [422, { code: 'invalid', detail: 'reason: say why', field: 'reason' }];
  const holdsOf = ({ body }) => JSON.parse(body).holds;
  const broken = (options) => [200, { broken: holdsOf(options), gone: [] }];

  test('is of the bucket that it names, in portions', async () => {
    const calls = answering((_, options) => broken(options));
    const outcomes = [];
    assert.equal(await breakAll('orders', targets, '', (more) => outcomes.push(...more)), undefined);
    assert.deepEqual(
      calls.map((it) => [it.path, holdsOf(it).length]),
      [60, 60, 10].map((many) => ['/v1/buckets/orders/locks/break', many]),
    );
    assert.ok(outcomes.length === 130 && outcomes.every(({ result }) => result === 'broken'));
  });

  test('without the reason that the server asks for leaves every target for another try', async () => {
    const calls = answering(() => NO_REASON);
    const refused = await breakAll('orders', targets, '', () => assert.fail('no target has an outcome'));
    assert.deepEqual([refused.why, refused.left, calls.length], ['reason: say why', targets, 1]);
  });

  test('that is refused for its reason midway breaks none twice when it is tried again', async () => {
    let left = 1;
    const calls = answering((_, options) => (left-- > 0 ? broken(options) : NO_REASON));
    const outcomes = [];
    const more = (some) => outcomes.push(...some);
    const refused = await breakAll('orders', targets, '', more);
    assert.deepEqual([outcomes.length, refused.left.length], [60, 70]);
    left = 2;
    assert.equal(await breakAll('orders', refused.left, 'they hang', more), undefined);
    const done = calls.filter((_, at) => at !== 1).flatMap(holdsOf);
    assert.deepEqual(
      done.map(({ fencingToken }) => fencingToken),
      targets.map(({ fencingToken }) => fencingToken),
    );
    assert.equal(outcomes.length, 130);
  });

  test('that fails otherwise leaves the rest alone', async () => {
    const calls = answering(() => [403, { code: 'forbidden', detail: 'no', permission: 'operate' }]);
    const outcomes = [];
    assert.equal(await breakAll('orders', targets, '', (more) => outcomes.push(...more)), undefined);
    assert.equal(calls.length, 1);
    assert.ok(outcomes.length === 130 && outcomes.every(({ result }) => result === 'failed'));
  });
});

describe('a break that is stopped', () => {
  test('sends no further portion, and says what was not tried', async () => {
    const targets = Array.from({ length: 130 }, (_, at) => ({ name: `n/${at}`, fencingToken: at + 1, kind: 'web' }));
    const stop = new AbortController();
    const calls = answering((_, { body }) => {
      stop.abort();
      return [200, { broken: JSON.parse(body).holds, gone: [] }];
    });
    const outcomes = [];
    assert.equal(await breakAll('orders', targets, '', (more) => outcomes.push(...more), stop.signal), undefined);
    const of = (result) => outcomes.filter((outcome) => outcome.result === result).length;
    assert.deepEqual([calls.length, of('broken'), of('left')], [1, 60, 70]);
  });
});

test('a portion of a break has no more bytes than the server takes', async () => {
  const targets = Array.from({ length: 60 }, (_, at) => ({
    name: 'ж'.repeat(4000),
    fencingToken: at + 1,
    kind: 'web',
  }));
  const calls = answering((_, { body }) => [200, { broken: JSON.parse(body).holds, gone: [] }]);
  const outcomes = [];
  await breakAll('orders', targets, '', (more) => outcomes.push(...more));
  assert.deepEqual([outcomes.length, calls.length], [60, 4]);
  for (const { body } of calls) assert.ok(Buffer.byteLength(body) < 256 << 10);
});

describe('a break whose answer is not of the server itself', () => {
  const target = { name: 'n', fencingToken: 1, holder: 'h', kind: 'web' };
  const outcomeOf = async () => {
    const outcomes = [];
    await breakAll('orders', [target], '', (more) => outcomes.push(...more));
    return outcomes[0].result;
  };

  test('may have happened', async () => {
    globalThis.fetch = async () => new Response('Gateway Timeout', { status: 504 });
    assert.equal(await outcomeOf(), 'unknown');
    globalThis.fetch = async () => new Response('{"broken":[', { status: 200 });
    assert.equal(await outcomeOf(), 'unknown');
  });

  test('has not where the server says so, or nothing of it came to the server', async () => {
    answering(() => [503, { code: 'unavailable', detail: 'later' }]);
    assert.equal(await outcomeOf(), 'failed');
    globalThis.fetch = async () => new Response('no', { status: 400 });
    assert.equal(await outcomeOf(), 'failed');
  });
});

describe('a redirect', () => {
  for (const [what, ask] of [
    ['of a call', () => assert.rejects(call('GET', '/v1/buckets'), { status: 0, message: /redirect/ })],
    ['of a change', () => assert.rejects(call('POST', '/v1/buckets', {}, {}), { status: 0, message: /redirect/ })],
    [
      'of a stream',
      async (asked) => {
        const stop = new AbortController();
        void follow('/events', () => assert.fail('there is no event'), stop.signal);
        await asked;
        stop.abort();
      },
    ],
  ]) {
    test(`${what} is not followed`, async (t) => {
      const serve = async (answer) => {
        const server = createServer(answer).listen(0, '127.0.0.1');
        await once(server, 'listening');
        t.after(() => {
          server.closeAllConnections();
          server.close();
        });
        return server;
      };
      const taken = [];
      const elsewhere = await serve(({ headers }, response) => {
        taken.push(headers);
        response.end();
      });
      const location = `http://127.0.0.1:${elsewhere.address().port}/`;
      const server = await serve((_, response) => response.writeHead(307, { location, connection: 'close' }).end());
      let came;
      const asked = new Promise((resolve) => {
        came = resolve;
      });
      globalThis.fetch = async (path, options) => {
        const response = await fetchOfNode(`http://127.0.0.1:${server.address().port}${path}`, options);
        came();
        return response;
      };
      await ask(asked);
      assert.deepEqual(taken, []);
    });
  }
});

describe('an answer that does not come', { timeout: 20_000 }, () => {
  /** A server that begins answers with `begin`, and never ends one. */
  async function silentServer(t, begin) {
    const server = createServer((_, response) => begin(response)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => {
      server.closeAllConnections();
      server.close();
    });
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const asked = once(server, 'request');
    const begun = new Promise((resolve) => {
      globalThis.fetch = async (path, options) => {
        const response = await fetchOfNode(`http://127.0.0.1:${server.address().port}${path}`, options);
        resolve();
        return response;
      };
    });
    return { asked, begun };
  }

  test('is given up after a time, which the problem says', async (t) => {
    const { asked } = await silentServer(t, () => {});
    const answer = call('GET', '/v1/buckets');
    await asked;
    t.mock.timers.tick(10_000);
    await assert.rejects(answer, { status: 0, code: 'unreachable', message: 'The server has not answered in 10 s.' });
  });

  test('is given up, too, where its body does not end', async (t) => {
    const { begun } = await silentServer(t, (response) => response.write('{"buckets":'));
    const answer = call('GET', '/v1/buckets');
    await begun;
    t.mock.timers.tick(10_000);
    await assert.rejects(answer, { status: 0, code: 'unreachable' });
  });

  test('leaves a break unknown, for which it is waited longer', async (t) => {
    const { asked } = await silentServer(t, () => {});
    const outcomes = [];
    const target = { name: 'n', fencingToken: 1, holder: 'h', kind: 'web' };
    const done = breakAll('orders', [target], '', (more) => outcomes.push(...more));
    await asked;
    t.mock.timers.tick(29_999);
    assert.deepEqual(outcomes, []);
    t.mock.timers.tick(1);
    await done;
    assert.equal(outcomes[0].result, 'unknown');
    assert.match(outcomes[0].why, /not answered in 30 s/);
  });
});

test('assignments, and requests that wait, are not chosen among holds', () => {
  const entry = (kind, state, fencingToken) => ({ name: 'n', clientId: 'c', kind, state, fencingToken });
  const entries = [
    entry('web', 'held', 1),
    entry('web', 'pending', null),
    entry('claim', 'held', 2),
    entry('assignment', 'assigned', 3),
  ];
  const tokens = (of) => entries.flatMap(of).map(({ fencingToken }) => fencingToken);
  assert.deepEqual(tokens(holdOf), [1, 2]);
  assert.deepEqual(tokens(targetOf), [1, 2, 3]);
});

test('a reason is as long as its bytes', () => {
  assert.equal(faultOfReason('x'.repeat(256)), undefined);
  assert.equal(faultOfReason('ж'.repeat(128)), undefined);
  assert.match(faultOfReason('ж'.repeat(129)), /^258 bytes/);
});

describe('the entries of a name', () => {
  const held = (fencingToken) => ({ name: 'n', state: 'held', place: null, fencingToken });
  const pending = (place) => ({ name: 'n', state: 'pending', place, fencingToken: null });
  const many = (count, make) => Array.from({ length: count }, (_, at) => make(at + 1));

  /** Answers as the server does, holders first, and counts the questions. */
  const server = (entries) => {
    const asked = [];
    const ask = async ({ state, limit, ...rest }) => {
      asked.push({ state, ...rest });
      const found = entries.filter((entry) => state === undefined || entry.state === state);
      return { entries: found.slice(0, limit), next: found.length > limit ? '00' : null };
    };
    return { ask, asked };
  };

  test('come with one answer if that has all', async () => {
    const { ask, asked } = server([held(1), pending(2), pending(1)]);
    const found = await loadName('n', ask);
    assert.deepEqual([found.holders, found.queue], [[held(1)], [pending(1), pending(2)]]);
    assert.deepEqual([found.hasMoreHolders, found.hasMoreQueue, asked.length], [false, false, 1]);
  });

  test('have the request that waits behind more holders than an answer has', async () => {
    const { ask } = server([...many(1200, held), pending(1)]);
    const found = await loadName('n', ask);
    assert.deepEqual([found.holders.length, found.hasMoreHolders], [1000, true]);
    assert.deepEqual([found.queue, found.hasMoreQueue], [[pending(1)], false]);
  });

  test('are more than are shown where so many wait', async () => {
    const { ask } = server([held(1), ...many(5000, pending)]);
    const found = await loadName('n', ask);
    assert.deepEqual([found.holders.length, found.hasMoreHolders], [1, false]);
    assert.deepEqual([found.queue.length, found.hasMoreQueue], [1000, true]);
  });
});
