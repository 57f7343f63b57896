// The bounds of what callers name, with the real server: the same vectors as in process and in the Rust
// client.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { WebSocket } from 'ws';
import { connect } from '../dist/lockhouse.js';
import { startServer } from './support/server.mjs';

const file = new URL('../../../protocol/vectors/bounds.json', import.meta.url);
const { bounds } = JSON.parse(await readFile(file, 'utf8'));

/** A text of that length in the unit of the bound, or the number. */
function sampleOf({ unit }, length) {
  if (unit === 'millisecond') return length;
  if (unit === 'character') return '\u{1d54f}'.repeat(length);
  const [long, short] = unit === 'byte' ? ['\u00e9', 'x'] : ['\u{1d54f}', 'x'];
  return long.repeat(length / 2) + short.repeat(length % 2);
}

describe('the bounds of what callers name', () => {
  let server;
  let client;
  before(async () => {
    server = await startServer();
    client = connect(server.url, { WebSocket });
  });
  after(async () => {
    client.close();
    await server.stop();
  });

  /** Makes the call that has that value. */
  async function call(of, value) {
    const { offline, claims } = client;
    const seat = `resource ${of} ${typeof value === 'string' ? value.length : value}`;
    switch (of) {
      case 'label':
        return offline.open({ label: value });
      case 'metadata':
      case 'ttlMs':
      case 'maxMs':
        return offline.open({ label: 'Anna', [of]: value });
      case 'claimant':
        return claims.claim(seat, { claimant: value });
      case 'resource':
        return claims.claim(value, { claimant: 'Anna' });
      case 'kind':
      case 'id': {
        const owner = await offline.open({ label: 'Anna' });
        return owner.lock([{ kind: 'customer', id: '7', intent: 'write', [of]: value }]).finally(() => owner.end());
      }
    }
    return assert.fail(`no call has a bound of ${of}`);
  }

  // The client makes the keys of claims itself.
  for (const bound of bounds.filter(({ of }) => of !== 'claimKey')) {
    const { of, least, most } = bound;
    const values = [[least, true], [most, true], [most + 1, false], ...(least > 0 ? [[least - 1, false]] : [])];
    for (const [length, isAllowed] of values) {
      test(`${of} of ${length} is ${isAllowed ? 'allowed' : 'refused'}`, async () => {
        const refusal = await call(of, sampleOf(bound, length)).then(
          () => undefined,
          (error) => error,
        );
        assert.equal(refusal === undefined, isAllowed, refusal);
        if (refusal) assert.ok(refusal.field.endsWith(of), `${refusal} names ${refusal.field}`);
      });
    }
  }
});
