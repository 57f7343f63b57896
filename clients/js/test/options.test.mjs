// What connect() and install() are given: a value that the server would refuse is refused at once, by name.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { connect, install } from '../dist/lockhouse.js';
import { scriptedPeer } from './support/peer.mjs';
import { start, turn } from './support/session.mjs';

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
