// Rates, lengths of time, streams of events, bars over time, portions.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { load } from './support.mjs';

const { rates, withSample, sum } = await load('logic/rates.ts');
const { duration, localTime, offsetAfter, readDuration, ticking } = await load('logic/times.ts');
const { EventReader } = await load('logic/sse.ts');
const { bars, describe: describeBar, extent, lanes, withEvent } = await load('logic/timeline.ts');
const { portions } = await load('logic/portions.ts');
const { atLeast, endsOfLoss, sayQueue } = await load('logic/causes.ts');

const sample = (at, granted, since = 's') => ({ at, since, held: 0, waiting: 0, granted, refused: 0, lost: 0 });

describe('rates', () => {
  const granted = (samples) => rates(samples).map((rate) => rate.granted);

  test('are differences of totals over the time between', () => {
    assert.deepEqual(granted([sample(0, 10), sample(2000, 30), sample(6000, 30)]), [null, 10, 0]);
  });

  test('are not known over a restart, a long gap or where nothing is counted', () => {
    assert.deepEqual(granted([sample(0, 10), sample(2000, 5, 'later'), sample(4000, 7, 'later')]), [null, null, 1]);
    assert.deepEqual(granted([sample(0, 10), sample(2000, 5)]), [null, null]);
    assert.deepEqual(granted([sample(0, 10), sample(60_000, 50)]), [null, null]);
    assert.deepEqual(granted([sample(0, null), sample(2000, null)]), [null, null]);
  });

  test('are made of the latest looks, each once', () => {
    let samples = [];
    for (const at of [1, 2, 2, 1, 3, 4]) samples = withSample(samples, sample(at, at), 3);
    assert.deepEqual(
      samples.map(({ at }) => at),
      [2, 3, 4],
    );
    assert.equal(sum({ a: 1, b: 2 }) + sum(undefined), 3);
  });
});

test('looks begin anew where the clock of the server is set back', () => {
  let samples = [];
  for (const at of [60_000, 62_000, 61_000, 2000, 4000]) samples = withSample(samples, sample(at, at), 9);
  assert.deepEqual(
    samples.map(({ at }) => at),
    [2000, 4000],
  );
});

test('the clock of the server is read from quick answers, and from a slow one only before', () => {
  assert.equal(offsetAfter(undefined, 10_000, 200, 4100), 6000);
  assert.equal(offsetAfter(6000, 10_000, 8000, 12_000), 6000);
  assert.equal(offsetAfter(undefined, 10_000, 8000, 8000), 6000);
  assert.equal(offsetAfter(6000, 10_000, 1000, 9500), 1000);
  assert.equal(offsetAfter(6000, Number.NaN, 1, 1), 6000);
});

describe('lengths of time', () => {
  test('are in at most two units', () => {
    const shown = [0, 0.4, 12, 1500, 59_999, 60_000, 200_000, 7_500_000, 86_400_000, 97_200_000, -1500].map(duration);
    assert.deepEqual(shown, [
      '< 1 ms',
      '< 1 ms',
      '12 ms',
      '1.5 s',
      '59 s',
      '1 min',
      '3 min 20 s',
      '2 h 5 min',
      '1 d',
      '1 d 3 h',
      '−1.5 s',
    ]);
    assert.equal(ticking(999), '0 s');
  });

  test('are read as they are typed', () => {
    assert.deepEqual(
      ['90s', ' 5 min ', '5m', '2h', '1d', '250ms', '1.5h'].map(readDuration),
      [90_000, 300_000, 300_000, 7_200_000, 86_400_000, 250, 5_400_000],
    );
    assert.deepEqual(['', '5', 'min', '-5s', '5 weeks'].map(readDuration), Array(5).fill(undefined));
  });
});

describe('a stream of events', () => {
  const text =
    ': hello\n\nid: 7.1\nevent: granted\ndata: {"a":\ndata: 1}\n\r\nevent: x\n\ndata:b\r\n\r\nid: 7.2\revent: ended\rdata: c\r\r';

  test('has an id before it has an event', () => {
    const reader = new EventReader();
    assert.deepEqual(reader.read(': hello\nid: 7.0\n\n'), []);
    assert.equal(reader.lastId, '7.0');
  });

  test('is read whatever the pieces in which it comes', () => {
    const expected = [
      { kind: 'granted', data: '{"a":\n1}' },
      { kind: 'message', data: 'b' },
      { kind: 'ended', data: 'c' },
    ];
    for (const size of [1, 2, 3, 7, 1000]) {
      const reader = new EventReader();
      const events = [];
      for (let at = 0; at < text.length; at += size) events.push(...reader.read(text.slice(at, at + size)));
      events.push(...reader.read('\n'));
      assert.deepEqual(events, expected, `in pieces of ${size}`);
      assert.equal(reader.lastId, '7.2');
    }
  });
});

describe('bars over time', () => {
  const at = (seconds) => new Date(seconds * 1000).toISOString();
  const entry = {
    name: 'n',
    mode: 'exclusive',
    kind: 'web',
    owner: null,
    expiresAt: null,
    metadata: null,
    place: null,
  };
  const ended = {
    kind: 'web',
    name: 'n',
    owner: null,
    waitingSince: null,
    mode: 'exclusive',
    operator: null,
    reason: null,
  };

  test('show what is there and what has ended, each once', () => {
    const found = bars(
      [
        { ...entry, state: 'held', clientId: 'b', since: at(20), fencingToken: 2 },
        { ...entry, state: 'pending', clientId: 'c', since: at(25), fencingToken: null, place: 1 },
      ],
      [
        { ...ended, label: 'a', fencingToken: 1, waitingSince: at(-5), since: at(0), endedAt: at(20), end: 'released' },
        { ...ended, label: 'e', fencingToken: null, since: at(3), endedAt: at(4), end: 'aborted' },
        { ...ended, label: 'd', fencingToken: null, since: at(22), endedAt: at(22), end: 'refused' },
      ],
      [],
    );
    assert.deepEqual(
      found.map(({ who, what, to }) => [who, what, to]),
      [
        ['a', 'waits', 0],
        ['a', 'held', 20_000],
        ['e', 'waits', 4000],
        ['b', 'held', null],
        ['c', 'waits', null],
      ],
    );
  });

  test('show waits that were seen to end, and those that go on once', () => {
    const event = (type, clientId, since, seconds) => ({
      type,
      clientId,
      since: at(since),
      at: at(seconds),
      kind: 'web',
    });
    let waits = [];
    for (const it of [
      event('waiting', 'a', 1, 1),
      event('waiting', 'b', 2, 2),
      event('granted', 'a', 1, 5),
      event('opened', 'b', 6, 6),
    ]) {
      waits = withEvent(waits, it, 10);
    }
    assert.deepEqual(
      waits.map(({ who, to, end }) => [who, to, end]),
      [
        ['a', 5000, 'granted'],
        ['b', null, null],
      ],
    );
    const pending = { ...entry, state: 'pending', clientId: 'b', since: at(2), fencingToken: null, place: 1 };
    assert.equal(bars([pending], [], waits).length, 2);
    // Its end may have been missed, as events are while the page is not seen.
    assert.deepEqual(
      bars([], [], waits).map(({ who, to }) => [who, to]),
      [['a', 5000]],
    );
  });

  test('are in one lane for a party unless they overlap', () => {
    const bar = (who, from, to) => ({ who, from, to });
    const found = lanes([bar('a', 0, 5), bar('a', 5, 9), bar('b', 1, 2), bar('a', 8, null)], 2);
    assert.deepEqual(
      found.map((lane) => [lane.who, lane.bars.length]),
      [
        ['a', 1],
        ['a', 2],
      ],
    );
  });

  test('are in lanes soon, also where very many of one party overlap', () => {
    const many = Array.from({ length: 50_000 }, (_, from) => ({ who: 'a', from, to: null }));
    const began = performance.now();
    assert.equal(lanes(many, 3).length, 3);
    assert.ok(performance.now() - began < 1000, `it took ${performance.now() - began} ms`);
  });

  test('fill the part of the window in which they are', () => {
    assert.deepEqual(extent({ from: 0, to: 50 }, 0, 100), { left: 0, width: 50 });
    assert.deepEqual(extent({ from: 90, to: null }, 0, 100), { left: 90, width: 10 });
    assert.equal(extent({ from: 0, to: 10 }, 20, 30), undefined);
  });
});

test('a loss leads to the ends of the holds that it counts', () => {
  assert.deepEqual(endsOfLoss('stolen'), [{ end: 'stolen' }]);
  // Locks of silent owners, and claims: not the owners, which end as `expired`, too.
  assert.deepEqual(endsOfLoss('ttl'), [
    { end: 'ownerExpired', kind: 'offline' },
    { end: 'expired', kind: 'claim' },
  ]);
  assert.deepEqual(endsOfLoss('max_life'), [{ end: 'ownerOverdue', kind: 'offline' }]);
  assert.deepEqual(endsOfLoss('lease'), [{ end: 'leaseExpired' }]);
  assert.deepEqual(endsOfLoss('a later cause'), []);
});

test('an instant of an address is shown in the field for local times', () => {
  const shown = localTime('2026-11-20T12:00:07.250Z');
  assert.match(shown, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/);
  assert.equal(new Date(shown).toISOString(), '2026-11-20T12:00:07.000Z');
  assert.deepEqual([localTime(shown), localTime(''), localTime('soon')], [shown, '', 'soon']);
});

test('a bar in words has what turns the direction of text written out', () => {
  const bar = { who: 'a\u202eb', what: 'held', kind: 'web', token: 7, from: 0, to: 1500, end: 'broken' };
  const lines = describeBar({ ...bar, reason: 'it\u202e hangs\n' }, 2000).split('\n');
  assert.equal(lines[0], 'a\\u{202e}b: Web Lock, token 7');
  assert.deepEqual(lines.slice(2), ['for 1.5 s', 'end: broken', 'it\\u{202e} hangs\\u{a}']);
  assert.match(describeBar({ ...bar, to: null, end: null, reason: null }, 2000), /for 2.0 s until now$/);
});

test('what is not wholly known is not said to be all', () => {
  assert.deepEqual([atLeast(1000, false), atLeast(1000, true)], ['1,000', 'more than 1,000']);
  assert.deepEqual(
    [sayQueue(0, false), sayQueue(1, false), sayQueue(30, false), sayQueue(1000, true)],
    ['nothing waits', '1 request waits', '30 requests wait', 'more than 1,000 requests wait'],
  );
});

test('portions are of at most that size, and have everything once', () => {
  assert.deepEqual(portions([1, 2, 3, 4, 5], 2), [[1, 2], [3, 4], [5]]);
  assert.deepEqual(portions([], 2), []);
});

test('portions weigh no more than that, but for one that does so alone', () => {
  const weigh = (it) => it;
  assert.deepEqual(portions([3, 4, 2, 9, 1, 1, 1, 1], 3, weigh, 7), [[3, 4], [2], [9], [1, 1, 1], [1]]);
});
