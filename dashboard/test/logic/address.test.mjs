// Addresses: names in them, and the state of a page.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { load } from './support.mjs';

const { decodeName, encodeName, pieces, plain } = await load('logic/names.ts');
const { changed, readPlace, writePlace } = await load('logic/url.ts');

const NAMES = [
  '',
  'a/b?c=d&e#f',
  'Ünï 🔒',
  'lone \ud800',
  '\udc00\ud800',
  '\ud83d\ude00',
  '%41+',
  ' . ',
  '..',
  '\u0000\n',
  'عقد',
];

describe('a name in an address', () => {
  for (const name of NAMES) {
    test(`is read as it was written: ${JSON.stringify(name)}`, () => {
      const text = encodeName(name);
      assert.match(text, /^[!-~]*$/);
      assert.equal(decodeName(text), name);
    });
  }

  test('is written as the HTTP API reads it', () => {
    assert.equal(encodeName('a/\ud800 é'), 'a%2F%ED%A0%80%20%C3%A9');
  });

  test('has U+FFFD for each byte that is no part of one', () => {
    assert.equal(decodeName('a%FFb%C0%80c%E2%82'), 'a\ufffdb\ufffd\ufffdc\ufffd\ufffd');
    assert.equal(decodeName('100%'), '100%');
  });
});

describe('a name that is shown', () => {
  test('has what is not seen, or turns the text, written out', () => {
    const shown = pieces('a\u202eb\ud800\n');
    assert.deepEqual(
      shown.map(({ text, isEscape }) => [text, isEscape]),
      [
        ['a', false],
        ['\\u{202e}', true],
        ['b', false],
        ['\\u{d800}', true],
        ['\\u{a}', true],
      ],
    );
    assert.equal(plain(''), '(empty name)');
    assert.equal(plain('عقد/٤٢'), 'عقد/٤٢');
  });
});

describe('a place', () => {
  for (const name of NAMES) {
    test(`with the name ${JSON.stringify(name)} comes back from its address`, () => {
      const place = { page: 'name', bucket: 'orders', params: { name } };
      const address = new URL(writePlace(place), 'http://host');
      assert.deepEqual(readPlace(address.pathname, address.search), place);
    });
  }

  test('does not mention the default bucket', () => {
    assert.equal(writePlace({ page: '', bucket: 'default', params: {} }), '/dashboard/');
    assert.deepEqual(readPlace('/dashboard', '?bucket='), { page: '', bucket: 'default', params: {} });
    assert.equal(readPlace('/dashboard/locks/', '').page, 'locks');
  });

  test('keeps its other filters when one changes', () => {
    const params = { prefix: 'a', cursor: '00' };
    assert.deepEqual(changed(params, { cursor: undefined, kind: 'web' }), { prefix: 'a', kind: 'web' });
  });

  test('has no filter that an object has by itself', () => {
    assert.deepEqual(Object.keys(readPlace('/dashboard/locks', '?__proto__=x&toString=y').params).sort(), [
      '__proto__',
      'toString',
    ]);
  });
});
