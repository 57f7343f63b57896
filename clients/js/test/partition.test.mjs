// The partition that a frame says it is in, by its origin and those above it.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { connect } from '../dist/lockhouse.js';
import { scriptedPeer } from './support/peer.mjs';
import { importSource } from './support/source.mjs';

const { currentPartition, partitionFor } = await importSource('partition');

describe('the partition of a frame', () => {
  const [BANK, EVIL] = ['https://bank.co.uk', 'https://evil.co.uk'];
  for (const [title, origin, ancestors, expected] of [
    ['in a page of its own', BANK, [], ''],
    ['below its own origin', BANK, [BANK, BANK], ''],
    ['below another origin, of whatever site', BANK, [EVIL], `origins: ${BANK} ${EVIL}`],
    ['below another port', BANK, [`${BANK}:444`], `origins: ${BANK} ${BANK}:444`],
    ['below its own origin, inside another', BANK, [EVIL, BANK], `origins: ${BANK} ${EVIL} ${BANK}`],
    [
      'below many, each of which counts once',
      BANK,
      [EVIL, BANK, EVIL, EVIL],
      `origins: ${BANK} ${EVIL} ${BANK} ${EVIL}`,
    ],
    ['below one that is unknown', BANK, ['null'], `origins: ${BANK} null`],
  ]) {
    test(`${title} is ${expected || 'empty'}`, () => {
      assert.equal(partitionFor(origin, ancestors), expected);
    });
  }

  test('in Node is empty', () => {
    assert.equal(currentPartition(), '');
  });

  test('is handed on as it is, and may be longer than any other', (t) => {
    const { WebSocket, connections } = scriptedPeer();
    const list = (bytes) => 'origins:'.padEnd(bytes, ` https://${'a'.repeat(60)}.example`);
    const client = connect('http://peer.example/', { WebSocket, partition: list(4096) });
    t.after(() => client.close());
    assert.equal(client.partition, list(4096));
    assert.equal(new URL(connections[0].socket.url).searchParams.get('partition'), list(4096));
    const error = /^partition: .* has 4097 bytes of UTF-8, but at most 4096 are allowed$/;
    assert.throws(() => connect('http://peer.example/', { WebSocket, partition: list(4097) }), {
      name: 'TypeError',
      message: error,
    });
  });
});
