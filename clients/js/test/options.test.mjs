// What connect() and install() are given: a value that the server would refuse is refused at once, by name.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { connect, install } from '../dist/lockhouse.js';
import { scriptedPeer } from './support/peer.mjs';
import { start, turn } from './support/session.mjs';

const ABSOLUTE = 'an absolute URL, with a number up to 65535 as its port if it has one';

// 257 bytes of UTF-8, but 256 code units.
const LONG = `é${'x'.repeat(255)}`;
const FITTING = 'x'.repeat(256);

/** The error for a value of this field that has one byte too many. */
function tooLong(field) {
  const shown = JSON.stringify(`${LONG.slice(0, 64)}…`);
  return { name: 'TypeError', message: `${field}: ${shown} has 257 bytes of UTF-8, but at most 256 are allowed` };
}

describe('values of more than 256 bytes', () => {
  const { WebSocket, connections } = scriptedPeer();
  const query = (field) => `http://peer.example/?${new URLSearchParams({ [field]: LONG })}`;

  for (const [how, make] of Object.entries({ connect, install })) {
    for (const field of ['bucket', 'partition', 'clientId']) {
      test(`${how}() throws for the option ${field}, and connects nowhere`, () => {
        assert.throws(() => make('http://peer.example/', { WebSocket, [field]: LONG }).close(), tooLong(field));
        assert.equal(connections.length, 0);
        assert.equal(globalThis.LockManager, undefined);
      });
    }
    for (const field of ['bucket', 'partition']) {
      test(`${how}() throws for the ${field} in the query of the URL`, () => {
        assert.throws(() => make(query(field), { WebSocket }).close(), tooLong(field));
        assert.equal(connections.length, 0);
      });
    }
  }

  test('bucket() throws, and the client goes on', async (t) => {
    const { client, peer } = start(t);
    assert.throws(() => client.bucket(LONG), tooLong('bucket'));
    assert.equal(client.bucket(FITTING).name, FITTING);
    await peer.connection();
    assert.equal(peer.connections.length, 1);
  });

  test('a value in the query does no harm where an option takes its place', (t) => {
    const client = connect(query('bucket'), { WebSocket, bucket: FITTING, partition: FITTING, clientId: FITTING });
    t.after(() => client.close());
    assert.deepEqual([client.name, client.partition], [FITTING, FITTING]);
  });
});

describe('options and addresses that cannot be meant', () => {
  const { WebSocket, connections } = scriptedPeer();
  const refused = (field, value, rule) => ({
    name: 'TypeError',
    message: `${field}: ${value}, but it must be ${rule}`,
  });
  const URL_RULE = 'without a user and a password: what says who connects is the option key';

  for (const [title, url, error] of [
    ['a port that is none', 'http://127.0.0.1:7420x', refused('url', '"http://127.0.0.1:7420x"', ABSOLUTE)],
    ['a port that is too high', 'http://127.0.0.1:74200', refused('url', '"http://127.0.0.1:74200"', ABSOLUTE)],
    ['the port 0', 'http://127.0.0.1:0', refused('url', '"http://127.0.0.1:0"', 'one with a port from 1 to 65535')],
    ['a password', 'http://me:hush@peer.example/', refused('url', '"http://***@peer.example/"', URL_RULE)],
    ['a user', 'wss://me@peer.example/', refused('url', '"wss://***@peer.example/"', URL_RULE)],
    ['a password before no port', 'http://me:hush@peer:x', refused('url', '"http://***@peer:x"', ABSOLUTE)],
    [
      'no UTF-8',
      'http://peer.example/?bucket=%FF',
      refused('url', '"http://peer.example/?bucket=%FF"', 'one whose query is percent-encoded UTF-8'),
    ],
    [
      'no escape',
      'http://peer.example/?bucket=%zz',
      refused('url', '"http://peer.example/?bucket=%zz"', 'one whose query is percent-encoded UTF-8'),
    ],
    ['a fragment', 'http://peer.example/#a', refused('url', '"http://peer.example/#a"', 'without a fragment')],
    [
      'two buckets',
      'http://peer.example/?bucket=a&bucket=b',
      { name: 'TypeError', message: 'url: has more than one bucket in its query' },
    ],
    [
      'what is unknown',
      'http://peer.example/?bucket=a&parition=geheim#x',
      { name: 'TypeError', message: 'url: has "parition" in its query, but it must have bucket and partition only' },
    ],
    ['an empty bucket', 'http://peer.example/?bucket=', refused('bucket', '""', 'a name of at least one character')],
  ]) {
    test(`${title} in the URL`, () => {
      assert.throws(() => connect(url, { WebSocket }).close(), error);
      assert.equal(connections.length, 0);
    });
  }

  for (const [field, value, shown, rule] of [
    ['bucket', '', '""', 'a name of at least one character'],
    ['bucket', 7, '7', 'a string'],
    ['bucket', 'a\ud800', '"a\\ud800"', 'without lone surrogates'],
    ['partition', {}, '[object Object]', 'a string'],
    ['partition', '\ud800', '"\\ud800"', 'without lone surrogates'],
    ['partition', '\u001fa', '"\\u001fa"', 'without U+001F at its beginning'],
    ['clientId', 7, '7', 'a string'],
    ['clientId', '\udc00', '"\\udc00"', 'without lone surrogates'],
    ['WebSocket', 'ws', '"ws"', 'a function'],
    ['fetch', {}, '[object Object]', 'a function'],
    ['onstate', 1, '1', 'a function'],
    ['bucket', null, 'null', 'a string'],
    ['partition', null, 'null', 'a string'],
    ['clientId', null, 'null', 'a string'],
    ['WebSocket', null, 'null', 'a function'],
    ['fetch', null, 'null', 'a function'],
  ]) {
    test(`the option ${field} of ${shown}`, () => {
      const options = { WebSocket, [field]: value };
      assert.throws(() => connect('http://peer.example/', options).close(), refused(field, shown, rule));
      assert.equal(connections.length, 0);
    });
  }

  for (const [how, make] of Object.entries({ connect, install })) {
    test(`an option of ${how}() that is unknown`, () => {
      const rule = 'an option must be one of bucket, clientId, partition, key, WebSocket, fetch, onstate';
      const error = { name: 'TypeError', message: `Bucket is unknown, but ${rule}` };
      assert.throws(() => make('http://peer.example/', { WebSocket, Bucket: 'x' }).close(), error);
      assert.equal(connections.length, 0);
      assert.equal(globalThis.LockManager, undefined);
    });
  }

  test('options that are undefined are absent, and a listener of null is none', (t) => {
    const absent = { bucket: undefined, clientId: undefined, partition: undefined, key: undefined, fetch: undefined };
    const client = connect('http://peer.example/?bucket=q', { WebSocket, ...absent, onstate: null });
    t.after(() => client.close());
    assert.deepEqual([client.name, client.partition, client.onstate], ['q', '', null]);
  });

  test('a symbol as a URL', () => {
    assert.throws(() => connect(Symbol('a')), refused('url', '"Symbol(a)"', ABSOLUTE));
  });

  test('a bucket() of no name', (t) => {
    const { client } = start(t);
    assert.throws(() => client.bucket(), refused('bucket', 'undefined', 'a string'));
    assert.throws(() => client.bucket(''), refused('bucket', '""', 'a name of at least one character'));
  });

  for (const [member, value, rule] of [
    ['timeout', '500', 'a number of milliseconds of at least 0'],
    ['timeout', null, 'a number of milliseconds of at least 0'],
    ['maxHold', Infinity, 'a number of milliseconds of at least 1 and at most 9007199254740991'],
    ['maxHold', true, 'a number of milliseconds of at least 1 and at most 9007199254740991'],
  ]) {
    test(`the option ${member} of ${JSON.stringify(value)} of a request`, async (t) => {
      const { locks } = start(t);
      const shown = typeof value === 'string' ? `"${value}"` : value;
      await assert.rejects(locks.request('a', { [member]: value }, assert.fail), {
        name: 'TypeError',
        message: `Failed to execute 'request' on 'LockManager': Failed to read the '${member}' property from 'LockOptions': The provided value ${shown} is not ${rule}.`,
      });
    });
  }

  test('metadata of a request that is no text', async (t) => {
    const { locks } = start(t);
    for (const [metadata, shown, rule] of [
      [{ a: 1 }, '[object Object]', 'a string'],
      ['\ud800', '"\\ud800"', 'without lone surrogates'],
    ]) {
      await assert.rejects(locks.request('a', { metadata }, assert.fail), refused('metadata', shown, rule));
    }
  });
});

describe('a client in an insecure context', () => {
  const { isSecureContext } = globalThis;
  before(() => {
    globalThis.isSecureContext = false;
  });
  after(() => {
    if (isSecureContext === undefined) delete globalThis.isSecureContext;
    else globalThis.isSecureContext = isSecureContext;
  });

  test('is closed from the beginning, and says so once to whoever sets onstate right away', async (t) => {
    const { client, peer } = start(t, { onstate: undefined });
    const states = [];
    client.onstate = (state) => states.push(state);
    assert.deepEqual([client.state, states], ['closed', []]);
    await turn();
    client.close();
    await turn();
    assert.deepEqual(states, ['closed']);
    assert.deepEqual(peer.connections, []);
    await assert.rejects(client.locks.request('n', assert.fail), { name: 'SecurityError' });
  });
});
