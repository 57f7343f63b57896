// Texts as they are shown, typed, and put into commands.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './support.mjs';

const { plainLines } = await load('logic/names.ts');
const { bucketOption } = await load('logic/shell.ts');
const { instantOf, localTime } = await load('logic/times.ts');

test('what is typed into the field is the same instant for readers in every zone', (t) => {
  const zone = process.env.TZ ?? 'UTC';
  t.after(() => {
    process.env.TZ = zone;
  });
  process.env.TZ = 'Asia/Kolkata';
  const address = instantOf('2026-11-20T17:30:07');
  assert.equal(address, '2026-11-20T12:00:07.000Z');
  assert.equal(localTime(address), '2026-11-20T17:30:07');
  process.env.TZ = 'America/New_York';
  assert.equal(localTime(address), '2026-11-20T07:00:07');
  assert.equal(instantOf(address), address);
  assert.equal(instantOf('soon'), 'soon');
});

test('a text of several lines keeps them', () => {
  assert.equal(plainLines('a\u202e\n\nb\u0007'), 'a\\u{202e}\n\nb\\u{7}');
  assert.equal(plainLines(''), '');
});

test('a bucket is one word of the shell in a command', () => {
  const found = ['default', 'jobs', 'a b', "it's", '$(x)', '-x', '*', 'odd\u202e'].map(bucketOption);
  assert.deepEqual(found, [
    '',
    ' --bucket jobs',
    " --bucket 'a b'",
    " --bucket 'it'\\''s'",
    " --bucket '$(x)'",
    ' --bucket=-x',
    " --bucket '*'",
    " --bucket $'odd\\U0000202e'",
  ]);
});
