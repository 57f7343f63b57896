// Addresses: names in them, and the state of a page.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { load } from './support.mjs';

const { decodeName, encodeName, pieces, plain } = await load('logic/names.ts');
const { changed, readPlace, traceOf, withinDashboard, writePlace } = await load('logic/url.ts');

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

describe('a link', () => {
  const HERE = 'http://host:7420/dashboard/locks?kind=web';

  for (const [href, expected] of [
    ['/dashboard/name?name=a%2Fb', { address: '/dashboard/name?name=a%2Fb', part: '' }],
    ['/dashboard', { address: '/dashboard', part: '' }],
    ['waits', { address: '/dashboard/waits', part: '' }],
    ['#content', { address: '/dashboard/locks?kind=web', part: 'content' }],
    ['/dashboard/locks#content', { address: '/dashboard/locks', part: '' }],
    ['/dashboards', undefined],
    ['/v1/cluster', undefined],
    ['https://host:7420/dashboard/', undefined],
    ['http://other/dashboard/', undefined],
    ['http://[', undefined],
    ['javascript:void 0', undefined],
  ]) {
    test(`${href} leads ${expected ? 'within the dashboard' : 'elsewhere'}`, () => {
      assert.deepEqual(withinDashboard(href, HERE), expected);
    });
  }
});

describe('the trace of a place', () => {
  const at = (page, params = {}, bucket = 'default') => ({ page, bucket, params });

  test('knows the page of the list before it, whatever was opened on the page', () => {
    const second = traceOf({ depth: 0 }, at('owners'), at('owners', { cursor: 'b' }));
    assert.deepEqual(second, { depth: 1, previous: 0 });
    const opened = traceOf(second, at('owners', { cursor: 'b' }), at('owners', { cursor: 'b', owner: '7' }));
    assert.deepEqual(opened, { depth: 2, previous: 0 });
    const third = traceOf(opened, at('owners', { cursor: 'b', owner: '7' }), at('owners', { cursor: 'c' }));
    assert.deepEqual(third, { depth: 3, previous: 2 });
  });

  test('knows none on a first page, another page or in another bucket', () => {
    const second = { depth: 4, previous: 3 };
    const from = at('owners', { cursor: 'b' });
    for (const to of [at('owners'), at('locks', { cursor: 'b' }), at('owners', { cursor: 'b' }, 'orders')]) {
      assert.deepEqual(traceOf(second, from, to), { depth: 5 });
    }
  });
});
