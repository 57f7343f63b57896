// What the methods beyond the specification are given, against a scripted server: what is not understood is
// refused at once, by name and with the rule, and nothing is sent.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { connect, heldLock } from '../dist/lockhouse.js';
import { scriptedApi } from './support/api.mjs';
import { scriptedPeer } from './support/peer.mjs';
import { hold, open, start, turn } from './support/session.mjs';

const RECORD = { kind: 'a', id: '1' };
const TARGET = { ...RECORD, intent: 'write' };
const EXPIRES = '2026-11-20T12:00:00.000Z';
const OWNER = { owner: '17', ownerSecret: 's', label: 'me', ttlMs: 600_000, expiresAt: EXPIRES };
const CLAIM = { resource: 'seat', claimant: 'me', token: 'T', expiresAt: EXPIRES, fencingToken: 7 };

const typeError = (message) => ({ name: 'TypeError', message });
const refused = (field, value, rule) => typeError(`${field}: ${value}, but it must be ${rule}`);
const unknown = (name, ...known) => typeError(`${name} is unknown, but an option must be one of ${known.join(', ')}`);
const member = (name, ...known) => typeError(`${name} is unknown, but a member must be one of ${known.join(', ')}`);

const CALL = ['signal', 'timeout'];
const OPEN = ['label', 'ttlMs', 'maxMs', 'metadata', 'heartbeats', ...CALL];
const GRANT = ['name', 'mode', 'fencingToken', 'how'];
const RELEASED = ['kind', 'id', 'fencingToken', 'intent', 'name', 'mode', 'how'];
const SENT = ['owner', 'label', 'since', 'expiresAt', 'metadata'];
const AN_OBJECT = 'an object';
const ITERABLE = 'an iterable object, such as an array';
const MILLISECONDS = 'a number of milliseconds above 0';
const SECRET = 'must be a string of 1 to 8192 visible ASCII characters';
/** Much less than a call is tried for. */
const QUICK = { timeout: 5_000 };
/** Writes itself as a number into JSON. */
const DISGUISED = { toJSON: () => 5 };

/** An owner of a scripted server, and how many calls it has taken to have it. */
async function owned(t) {
  const api = await scriptedApi(t);
  const opening = api.client.offline.open({ label: 'me', heartbeats: false });
  (await api.next('POST', 'owners')).reply(201, OWNER);
  return { ...api, owner: await opening };
}

/** A claim of a scripted server. */
async function claimed(t) {
  const api = await scriptedApi(t);
  const claiming = api.client.claims.claim('seat', { claimant: 'me' });
  (await api.next('POST', 'claims')).reply(201, CLAIM);
  return { ...api, claim: await claiming };
}

/** One test for each of these calls, which are made of what `make` gives. */
function refuses(make, cases) {
  for (const [title, call, error] of cases) {
    test(title, QUICK, async (t) => {
      const { calls, ...given } = await make(t);
      const before = calls.length;
      await assert.rejects(call(given), error);
      await turn();
      assert.equal(calls.length, before, 'something was sent');
    });
  }
}

describe('a guard of a release that is none releases nothing', () => {
  const guards = [null, '', false, 0, 'x', {}];
  const shown = ['null', '""', 'false', '0', '"x"', '[object Object]'];
  for (const [index, guard] of guards.entries()) {
    refuses(owned, [
      [
        `sparing of ${shown[index]}`,
        ({ owner }) => owner.unlockAll({ sparing: guard }),
        refused('sparing', shown[index], ITERABLE),
      ],
      [
        `holding of ${shown[index]} with all`,
        ({ owner }) => owner.unlockAll({ holding: guard }),
        refused('holding', shown[index], ITERABLE),
      ],
      [
        `holding of ${shown[index]} with some`,
        ({ owner }) => owner.unlock([RECORD], { holding: guard }),
        refused('holding', shown[index], ITERABLE),
      ],
    ]);
  }
  refuses(owned, [
    [
      'a token of null',
      ({ owner }) => owner.unlock([RECORD, { ...RECORD, fencingToken: null }]),
      refused('locks[1].fencingToken', 'null', 'an integer'),
    ],
    [
      'a token as a bigint',
      ({ owner }) => owner.unlock([{ ...RECORD, fencingToken: 5n }]),
      refused('locks[0].fencingToken', '5', 'an integer'),
    ],
    [
      'a token that JavaScript does not hold exactly',
      ({ owner }) => owner.unlockAll({ holding: [{ ...RECORD, fencingToken: 2 ** 53 }] }),
      refused('holding[0].fencingToken', '9007199254740992', 'an integer'),
    ],
    [
      'records in the place of the options',
      ({ owner }) => owner.unlockAll([RECORD]),
      refused('options', '[object Array]', AN_OBJECT),
    ],
    [
      'a record to be spared that is none',
      ({ owner }) => owner.unlockAll({ sparing: [RECORD, null] }),
      refused('sparing[1]', 'null', AN_OBJECT),
    ],
    [
      'a record to be spared without an id',
      ({ owner }) => owner.unlockAll({ sparing: [{ kind: 'a' }] }),
      refused('sparing[0].id', 'undefined', 'a string'),
    ],
  ]);
});

describe('a name that is unknown is refused', () => {
  refuses(owned, [
    [
      'sparring',
      ({ owner }) => owner.unlockAll({ sparring: [RECORD] }),
      unknown('sparring', 'sparing', 'holding', ...CALL),
    ],
    ['Holding', ({ owner }) => owner.unlock([RECORD], { Holding: [] }), unknown('Holding', 'holding', ...CALL)],
    [
      'token of a lock',
      ({ owner }) => owner.unlock([{ ...RECORD, token: 9 }]),
      member('locks[0].token', ...RELEASED, ...SENT),
    ],
    [
      'token of a lock that is to be held',
      ({ owner }) => owner.unlockAll({ holding: [{ ...RECORD, token: 9 }] }),
      member('holding[0].token', ...RELEASED, ...SENT),
    ],
    [
      'token of a lock to be spared',
      ({ owner }) => owner.unlockAll({ sparing: [{ ...RECORD, token: 9 }] }),
      member('sparing[0].token', 'kind', 'id', 'intent', ...GRANT, ...SENT),
    ],
    [
      'metadata of a record',
      ({ owner }) => owner.lock([{ ...TARGET, metadata: 'x' }]),
      member('locks[0].metadata', 'kind', 'id', 'intent', ...GRANT),
    ],
    ['meta', ({ owner }) => owner.lock([TARGET], { meta: 'x' }), unknown('meta', 'metadata', ...CALL)],
    ['ttlMs of a heartbeat', ({ owner }) => owner.heartbeat({ ttlMs: 5 }), unknown('ttlMs', ...CALL)],
    ['kind of own locks', ({ owner }) => owner.locks({ kind: 'a' }), unknown('kind', ...CALL)],
    ['force of an end', ({ owner }) => owner.end({ force: true }), unknown('force', ...CALL)],
  ]);
  refuses(claimed, [
    ['ttlMs of a renewal', ({ claim }) => claim.renew({ ttlMs: 5000 }), unknown('ttlMs', ...CALL)],
    ['a renewal by token', ({ client }) => client.claims.renew('r', 'T', { ttlMs: 1 }), unknown('ttlMs', ...CALL)],
    ['Signal of a release', ({ claim }) => claim.release({ Signal: null }), unknown('Signal', ...CALL)],
    ['ttlMs of a finalization', ({ claim }) => claim.finalize({ ttlMs: 1 }), unknown('ttlMs', ...CALL)],
  ]);
  refuses(scriptedApi, [
    [
      'heartbeat',
      ({ client }) => client.offline.open({ label: 'me', heartbeat: false }),
      unknown('heartbeat', ...OPEN),
    ],
    ['ttl of an owner', ({ client }) => client.offline.open({ label: 'me', ttl: 5 }), unknown('ttl', ...OPEN)],
    [
      'heartbeat of a resumed owner',
      ({ client }) => client.offline.resume('17', 's', { heartbeat: false }),
      unknown('heartbeat', 'heartbeats', ...CALL),
    ],
    [
      'ttl of a claim',
      ({ client }) => client.claims.claim('r', { claimant: 'me', ttl: 5000 }),
      unknown('ttl', 'claimant', 'ttlMs', 'metadata', ...CALL),
    ],
    [
      'token of an assignment',
      ({ client }) => client.claims.unassign('r', { token: 5 }),
      unknown('token', 'fencingToken', ...CALL),
    ],
    ['of a question', ({ client }) => client.claims.assignment('r', { x: undefined }), unknown('x', ...CALL)],
    [
      'Kind of a filter',
      ({ client }) => client.offline.locks({ Kind: 'z' }).next(),
      unknown('Kind', 'kind', 'owner', 'prefix', ...CALL),
    ],
  ]);
});

describe('null is a value, and none of these', () => {
  const open =
    (options) =>
    ({ client }) =>
      client.offline.open({ label: 'me', ...options });
  const claim =
    (options) =>
    ({ client }) =>
      client.claims.claim('r', { claimant: 'me', ...options });
  refuses(scriptedApi, [
    ['label', open({ label: null }), refused('label', 'null', 'a string')],
    ['ttlMs of an owner', open({ ttlMs: null }), refused('ttlMs', 'null', 'a finite number')],
    ['maxMs', open({ maxMs: null }), refused('maxMs', 'null', 'a finite number')],
    ['metadata of an owner', open({ metadata: null }), refused('metadata', 'null', 'a string')],
    ['heartbeats', open({ heartbeats: null }), refused('heartbeats', 'null', 'true or false')],
    ['signal', open({ signal: null }), refused('signal', 'null', 'an AbortSignal')],
    ['timeout', open({ timeout: null }), refused('timeout', 'null', MILLISECONDS)],
    ['claimant', claim({ claimant: null }), refused('claimant', 'null', 'a string')],
    ['ttlMs of a claim', claim({ ttlMs: null }), refused('ttlMs', 'null', 'a finite number')],
    ['metadata of a claim', claim({ metadata: null }), refused('metadata', 'null', 'a string')],
    [
      'owner of a filter',
      ({ client }) => client.offline.locks({ owner: null }).next(),
      refused('owner', 'null', 'a string'),
    ],
  ]);
  refuses(owned, [
    [
      'metadata of locks',
      ({ owner }) => owner.lock([TARGET], { metadata: null }),
      refused('metadata', 'null', 'a string'),
    ],
  ]);

  test('but undefined is absent', async (t) => {
    const { client, next } = await scriptedApi(t);
    const absent = { maxMs: undefined, metadata: undefined, heartbeats: undefined, signal: undefined };
    const opening = client.offline.open({ label: 'me', ttlMs: undefined, timeout: undefined, ...absent });
    const call = await next('POST', 'owners');
    assert.deepEqual(call.body, { label: 'me' });
    call.reply(201, OWNER);
    await opening;
  });
});

describe('a value of another type', () => {
  const claim =
    (options) =>
    ({ client }) =>
      client.claims.claim('r', { claimant: 'me', ...options });
  refuses(scriptedApi, [
    ['no label', ({ client }) => client.offline.open({}), refused('label', 'undefined', 'a string')],
    [
      'a label that writes itself',
      ({ client }) => client.offline.open({ label: { toJSON: () => 'me' } }),
      refused('label', '[object Object]', 'a string'),
    ],
    [
      'a lone surrogate in a label',
      ({ client }) => client.offline.open({ label: '\ud800' }),
      refused('label', '"\\ud800"', 'without lone surrogates'),
    ],
    ['a TTL that writes itself', claim({ ttlMs: DISGUISED }), refused('ttlMs', '[object Object]', 'a finite number')],
    ['a TTL as a text', claim({ ttlMs: '5000' }), refused('ttlMs', '"5000"', 'a finite number')],
    ['a TTL as a bigint', claim({ ttlMs: 5n }), refused('ttlMs', '5', 'a finite number')],
    ['a claimant', claim({ claimant: 7 }), refused('claimant', '7', 'a string')],
    ['metadata', claim({ metadata: ['a'] }), refused('metadata', '[object Array]', 'a string')],
    [
      'an assignment of 2 ** 60',
      ({ client }) => client.claims.unassign('r', { fencingToken: 2 ** 60 }),
      refused('fencingToken', String(2 ** 60), 'an integer'),
    ],
  ]);
  refuses(owned, [
    ...[
      [undefined, 'undefined'],
      [null, 'null'],
      [5, '5'],
      ['ab', '"ab"'],
      [RECORD, '[object Object]'],
    ].flatMap(([targets, value]) => [
      [`${value} to be locked`, ({ owner }) => owner.lock(targets), refused('locks', value, ITERABLE)],
      [`${value} to be unlocked`, ({ owner }) => owner.unlock(targets), refused('locks', value, ITERABLE)],
    ]),
    ['a name as a record', ({ owner }) => owner.lock(['a/1']), refused('locks[0]', '"a/1"', AN_OBJECT)],
    // biome-ignore lint/suspicious/noSparseArray: what is refused.
    ['a hole in the list', ({ owner }) => owner.unlock([, RECORD]), refused('locks[0]', 'undefined', AN_OBJECT)],
    ['a kind', ({ owner }) => owner.lock([{ ...TARGET, kind: 1 }]), refused('locks[0].kind', '1', 'a string')],
    [
      'a lone surrogate in an id',
      ({ owner }) => owner.lock([{ ...TARGET, id: '\udc00' }]),
      refused('locks[0].id', '"\\udc00"', 'without lone surrogates'),
    ],
    ['no intent', ({ owner }) => owner.lock([RECORD]), refused('locks[0].intent', 'undefined', 'a string')],
  ]);

  test('but any iterable of records will do, with what the server sent of them', async (t) => {
    const { owner, next } = await owned(t);
    const grant = { ...TARGET, name: 'a/1', mode: 'exclusive', fencingToken: 7, how: 'fresh' };
    const locking = owner.lock(new Set([grant]));
    const asked = await next('POST', 'locks');
    assert.deepEqual(asked.body.locks, [TARGET]);
    asked.reply(201, { owner: '17', expiresAt: EXPIRES, locks: [grant] });
    const grants = await locking;
    const releasing = owner.unlock(new Set(grants), { holding: grants.values() });
    const { body, ...call } = await next('POST', 'locks/release');
    const token = [{ ...RECORD, fencingToken: 7 }];
    assert.deepEqual([body.locks, body.holding], [token, token]);
    call.response.writeHead(200).end('{"released":1}');
    assert.equal(await releasing, 1);
  });

  test('and a grant that needed no lock is passed over', async (t) => {
    const { owner, next } = await owned(t);
    const none = { ...TARGET, name: 'a/1', mode: null, fencingToken: null, how: 'notNeeded' };
    assert.equal(await owner.unlock([none]), 0);
    const releasing = owner.unlock([none, { ...RECORD, id: '2' }]);
    const { body, ...call } = await next('POST', 'locks/release');
    assert.deepEqual(body.locks, [{ ...RECORD, id: '2' }]);
    call.response.writeHead(200).end('{"released":1}');
    assert.equal(await releasing, 1);
  });
});

describe('options of no type', () => {
  const none = [
    [null, 'null'],
    [5, '5'],
    ['x', '"x"'],
    [false, 'false'],
    [[], '[object Array]'],
    [() => {}, 'a function'],
  ];
  for (const [options, value] of none) {
    const error = refused('options', value, AN_OBJECT);
    refuses(owned, [
      [`${value} of lock()`, ({ owner }) => owner.lock([TARGET], options), error],
      [`${value} of unlock()`, ({ owner }) => owner.unlock([RECORD], options), error],
      [`${value} of unlockAll()`, ({ owner }) => owner.unlockAll(options), error],
      [`${value} of the locks() of an owner`, ({ owner }) => owner.locks(options), error],
      [`${value} of heartbeat()`, ({ owner }) => owner.heartbeat(options), error],
      [`${value} of end()`, ({ owner }) => owner.end(options), error],
      [`${value} of resume()`, ({ client }) => client.offline.resume('17', 's', options), error],
      [`${value} of open()`, ({ client }) => client.offline.open(options), error],
      [`${value} of the locks() of a bucket`, ({ client }) => client.offline.locks(options).next(), error],
    ]);
    refuses(claimed, [
      [`${value} of claim()`, ({ client }) => client.claims.claim('r', options), error],
      [`${value} of unassign()`, ({ client }) => client.claims.unassign('r', options), error],
      [`${value} of assignment()`, ({ client }) => client.claims.assignment('r', options), error],
      [`${value} of renew()`, ({ claim }) => claim.renew(options), error],
      [`${value} of release()`, ({ claim }) => claim.release(options), error],
      [`${value} of finalize()`, ({ claim }) => claim.finalize(options), error],
    ]);
    test(`${value} of connect()`, () => {
      const { connections } = scriptedPeer();
      assert.throws(() => connect('http://peer.example/', options), error);
      assert.equal(connections.length, 0);
    });
  }
  refuses(scriptedApi, [
    ['none of open()', ({ client }) => client.offline.open(), refused('options', 'undefined', AN_OBJECT)],
    ['none of claim()', ({ client }) => client.claims.claim('n'), refused('options', 'undefined', AN_OBJECT)],
  ]);
});

describe('an end that is refused ends nothing', () => {
  const reason = new Error('changed my mind');
  for (const [title, options, error] of [
    ['a timeout below 0', { timeout: -1 }, refused('timeout', '-1', MILLISECONDS)],
    ['null', null, refused('options', 'null', AN_OBJECT)],
    ['an unknown option', { force: true }, unknown('force', ...CALL)],
    ['a signal that is aborted', { signal: AbortSignal.abort(reason) }, (thrown) => thrown === reason],
  ]) {
    test(`${title}: the owner goes on`, QUICK, async (t) => {
      const { owner, next } = await owned(t);
      await assert.rejects(owner.end(options), error);
      const listing = owner.locks();
      (await next('GET', 'owners/17')).reply(200, { ...OWNER, locks: [] });
      assert.deepEqual(await listing, []);
      const ending = owner.end();
      (await next('DELETE', 'owners/17')).reply(204, '');
      await ending;
    });
  }
});

describe('what proves who calls', () => {
  const secrets = ['a\nb', 'a b', '', '\u00e9', 'x'.repeat(8193), 7, null];
  for (const secret of secrets) {
    const shown = JSON.stringify(secret).slice(0, 10);
    refuses(scriptedApi, [
      [`is no secret: ${shown}`, ({ client }) => client.offline.resume('17', secret), typeError(`secret: ${SECRET}`)],
      [`is no token: ${shown}`, ({ client }) => client.claims.finalize('r', secret), typeError(`token: ${SECRET}`)],
    ]);
  }

  test('is not sent if the server has given a secret that no header can hold', QUICK, async (t) => {
    const api = await scriptedApi(t);
    const opening = api.client.offline.open({ label: 'me', heartbeats: false });
    (await api.next('POST', 'owners')).reply(201, { ...OWNER, ownerSecret: 'a\nb' });
    const owner = await opening;
    await assert.rejects(owner.lock([TARGET]), typeError(`secret: ${SECRET}`));
    assert.equal(api.calls.length, 1);
  });

  for (const id of ['', '..', '.', '1/2', '12345678901234567', ' 1', '1\n', '\u0661']) {
    refuses(scriptedApi, [
      [
        `is no id: ${JSON.stringify(id)}`,
        ({ client }) => client.offline.resume(id, 's'),
        refused('id', JSON.stringify(id), 'an id of 1 to 16 digits'),
      ],
    ]);
  }

  for (const [title, key] of [
    ['5', () => 5],
    ['nothing', async () => {}],
    ['an empty text', async () => ''],
  ]) {
    test(`is no key: a function that gives ${title} is no absent server`, QUICK, async (t) => {
      const { client, calls } = await scriptedApi(t, { key });
      await assert.rejects(client.claims.claim('r', { claimant: 'me' }), typeError(`key: ${SECRET}`));
      assert.equal(calls.length, 0);
    });
  }

  test('a function that gives none after a lost answer leaves the outcome unknown', QUICK, async (t) => {
    let key = 'k';
    const { client, next, calls } = await scriptedApi(t, { key: () => key });
    const claiming = client.claims.claim('r', { claimant: 'me' });
    claiming.catch(() => {});
    const call = await next('POST', 'claims');
    key = undefined;
    call.drop();
    await assert.rejects(claiming, { name: 'OutcomeUnknownError' });
    assert.equal(calls.length, 1);
  });

  test('a function that fails is asked again', QUICK, async (t) => {
    let asked = 0;
    const key = async () => {
      asked += 1;
      if (asked < 4) throw new TypeError('offline');
      return 'k';
    };
    const { client, next } = await scriptedApi(t, { key });
    const claiming = client.claims.claim('seat', { claimant: 'me' });
    (await next('POST', 'claims')).reply(201, CLAIM);
    assert.equal((await claiming).token, 'T');
  });
});

test('a call on a platform without fetch says so at once', QUICK, async (t) => {
  const { fetch } = globalThis;
  globalThis.fetch = undefined;
  t.after(() => {
    globalThis.fetch = fetch;
  });
  const { client } = start(t);
  await assert.rejects(
    client.claims.claim('r', { claimant: 'me' }),
    typeError('fetch: this platform has none, so the option must give a function'),
  );
});

describe('onstate', () => {
  test('takes a function or null, and what it had stays if it is given something else', async (t) => {
    const { client, states } = start(t);
    const { onstate } = client;
    for (const [listener, value] of [
      [5, '5'],
      ['x', '"x"'],
      [{ handleEvent() {} }, '[object Object]'],
    ]) {
      assert.throws(
        () => {
          client.onstate = listener;
        },
        refused('onstate', value, 'a function'),
      );
      assert.equal(client.onstate, onstate);
    }
    client.onstate = undefined;
    assert.equal(client.onstate, null);
    client.onstate = null;
    await turn();
    assert.deepEqual(states, []);
    client.onstate = function (state) {
      states.push([this === client, state]);
    };
    client.close();
    assert.deepEqual(states, [[true, 'closed']]);
  });
});

describe('the arguments of acquire', () => {
  const failed = (what) => typeError(`Failed to execute 'acquire' on 'LockManager': ${what}`);
  const rule = 'an option must be one of mode, ifAvailable, steal, signal, maxHold, metadata, timeout';
  for (const [title, args, error] of [
    ['none', [], failed('1 argument required, but only 0 present.')],
    ['a callback', ['x', () => 1], failed('options: a function, but it must be an object')],
    ['options of null', ['x', null], failed('options: null, but it must be an object')],
    ['options of 5', ['x', 5], failed('options: 5, but it must be an object')],
    ['a list as options', ['x', []], failed('options: [object Array], but it must be an object')],
    ['an unknown option', ['x', { ifavailable: true }], failed(`ifavailable is unknown, but ${rule}`)],
    ['an option of null', ['x', { steal: null }], failed('steal: null, but it must be true or false')],
    ['a text as a flag', ['x', { ifAvailable: 'false' }], failed('ifAvailable: "false", but it must be true or false')],
    ['a mode of null', ['x', { mode: null }], { name: 'TypeError', message: /'acquire'.*'mode'.*'null'/ }],
    ['a timeout of null', ['x', { timeout: null }], { name: 'TypeError', message: /'acquire'.*'timeout'.*null/ }],
    ['a symbol as a name', [Symbol('x')], { name: 'TypeError' }],
    ['a reserved name', ['-x'], { name: 'NotSupportedError', message: /'acquire'/ }],
  ]) {
    test(`${title}: nothing is asked for`, QUICK, async (t) => {
      const { server, locks } = await open(t);
      await assert.rejects(locks.acquire(...args), error);
      await turn();
      assert.deepEqual(
        server.frames.filter(({ type }) => type === 'request'),
        [],
      );
    });
  }

  test('are a name, converted as that of request, and options or undefined', async (t) => {
    const { server, locks } = await open(t);
    for (const [seq, options] of [undefined, {}, { mode: undefined, ifAvailable: undefined }].entries()) {
      const acquiring = locks.acquire(5, options);
      const { id, name } = await server.next('request');
      assert.equal(name, '5');
      server.send({ type: 'granted', seq: seq + 1, id, token: seq + 1 });
      await (await acquiring).release();
      await server.next('release');
    }
  });

  test('are those of the own methods only: request ignores an unknown name, as the specification has it', async (t) => {
    const { server, locks } = await open(t);
    const { released, release } = await hold({ server, locks }, 'n', 1, 1, { ifavailable: true });
    release('held');
    assert.equal(await released, 'held');
  });
});

test('heldLock names what is no lock', () => {
  for (const [value, shown] of [
    [undefined, 'undefined'],
    [{}, '[object Object]'],
  ]) {
    assert.throws(() => heldLock(value), refused('lock', shown, 'a Lock of lockhouse'));
  }
});
