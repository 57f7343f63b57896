// The arguments of requestAll(), against a scripted server: what cannot be meant is refused, and nothing is asked for.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { open, turn } from './support/session.mjs';

const asked = ({ frames }) => frames.filter(({ type }) => type === 'request').map(({ name }) => name);

/** Grants the next request and gives its name. */
async function grantNext(server, seq) {
  const { id, name } = await server.next('request');
  server.send({ type: 'granted', seq, id, token: seq });
  return name;
}

describe('the targets of requestAll', () => {
  for (const [title, targets, shown] of [
    ['a string, though it is an iterable of letters', 'report', '"report"'],
    ['a number', 5, '5'],
    ['undefined', undefined, 'undefined'],
    ['one target', { name: 'a' }, '[object Object]'],
  ]) {
    test(`may not be ${title}`, async (t) => {
      const { server, locks } = await open(t);
      await assert.rejects(
        locks.requestAll(targets, () => assert.fail('called back')),
        {
          name: 'TypeError',
          message: `Failed to execute 'requestAll' on 'LockManager': parameter 1 is ${shown}, but it must be an iterable object of names, such as ["a", "b"].`,
        },
      );
      await turn();
      assert.deepEqual(asked(server), []);
    });
  }

  test('may be any iterable object', async (t) => {
    const { server, locks } = await open(t);
    const all = locks.requestAll(new Set(['b', 'a']), (given) => given.map(({ name }) => name));
    assert.equal(await grantNext(server, 1), 'a');
    assert.equal(await grantNext(server, 2), 'b');
    assert.deepEqual(await all, ['a', 'b']);
  });
});
