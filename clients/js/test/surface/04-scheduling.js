// Names, modes and the queue: who is granted, who waits, and in which order.
(() => {
  'use strict';
  const { test } = surface;
  const shared = { mode: 'shared' };

  test('WL-001 WL-002 WL-051 a request waits while the name is taken and is granted on release', async (t) => {
    const name = t.name();
    const first = await t.held(name);
    const second = t.hold(name);
    await t.expectModes(name, ['exclusive'], ['exclusive']);
    t.equal(second.lock, undefined, 'the waiter has not run');
    first.release();
    await second.granted;
    await t.expectModes(name, ['exclusive'], []);
  });

  test('WL-020 WL-048 the default mode is exclusive', async (t) => {
    const name = t.name();
    const held = await t.held(name);
    t.equal(held.lock.mode, 'exclusive', 'mode');
    await t.expectModes(name, ['exclusive'], []);
  });

  test('WL-021 WL-036 an exclusive lock keeps both modes waiting', async (t) => {
    const name = t.name();
    const writer = await t.held(name);
    const reader = t.hold(name, shared);
    const other = t.hold(name);
    await t.expectModes(name, ['exclusive'], ['shared', 'exclusive']);
    writer.release();
    await reader.granted;
    t.equal(other.lock, undefined, 'the second writer waits on');
  });

  test('WL-022 WL-036 shared locks admit shared ones and keep an exclusive one waiting', async (t) => {
    const name = t.name();
    const readers = await Promise.all([t.held(name, shared), t.held(name, shared), t.held(name, shared)]);
    const writer = t.hold(name);
    await t.expectModes(name, ['shared', 'shared', 'shared'], ['exclusive']);
    for (const reader of readers) {
      t.equal(writer.lock, undefined, 'the writer waits for every reader');
      reader.release();
      await reader.released;
    }
    await writer.granted;
  });

  test('WL-023 WL-037 different names never influence one another', async (t) => {
    const exclusive = await t.held(t.name('a'));
    const other = await t.held(t.name('b'));
    const reader = await t.held(t.name('c'), shared);
    t.ok(exclusive.lock && other.lock && reader.lock, 'all three are held at once');
    const waiting = t.hold(t.name('a'));
    other.release();
    await other.released;
    t.equal(waiting.lock, undefined, 'a release of b does not wake a');
  });

  test('WL-035 WL-092 a shared request behind a waiting exclusive one waits too', async (t) => {
    const name = t.name();
    const reader = await t.held(name, shared);
    const writer = t.hold(name);
    const second = t.hold(name, shared);
    await t.expectModes(name, ['shared'], ['exclusive', 'shared']);
    reader.release();
    await writer.granted;
    await t.expectModes(name, ['exclusive'], ['shared']);
    writer.release();
    await second.granted;
  });

  test('WL-093 a run of shared requests at the head is granted in one pass up to the first exclusive one', async (t) => {
    const name = t.name();
    const gate = await t.held(name);
    const [one, two, writer, three] = [t.hold(name, shared), t.hold(name, shared), t.hold(name), t.hold(name, shared)];
    await t.expectModes(name, ['exclusive'], ['shared', 'shared', 'exclusive', 'shared']);
    gate.release();
    await Promise.all([one.granted, two.granted]);
    await t.expectModes(name, ['shared', 'shared'], ['exclusive', 'shared']);
    one.release();
    two.release();
    await writer.granted;
    await t.expectModes(name, ['exclusive'], ['shared']);
    writer.release();
    await three.granted;
  });

  test('WL-054 WL-008 readers, then a writer alone, then readers again', async (t) => {
    const name = t.name();
    const log = [];
    let inside = 0;
    const visit = (label, mode) =>
      t.locks.request(name, { mode }, async () => {
        inside++;
        log.push(`${label}+${inside}`);
        await t.turn();
        inside--;
      });
    const gate = await t.held(name);
    const all = ['R1', 'R2', 'R3', 'W', 'R4', 'R5'].map((label) =>
      visit(label, label === 'W' ? 'exclusive' : 'shared'),
    );
    await t.expectModes(name, ['exclusive'], ['shared', 'shared', 'shared', 'exclusive', 'shared', 'shared']);
    gate.release();
    await t.soon(Promise.all(all), 'all six');
    t.same(
      log.map((entry) => entry.split('+')[0]),
      ['R1', 'R2', 'R3', 'W', 'R4', 'R5'],
      'order of grants',
    );
    t.equal(log[3], 'W+1', 'the writer is alone');
  });

  test('WL-002 WL-092 SP-014 two hundred exclusive requests are granted in the order in which they were made', async (t) => {
    const name = t.name();
    const order = [];
    const wanted = Array.from({ length: 200 }, (_, index) => index);
    await Promise.all(
      wanted.map((index) =>
        t.locks.request(name, () => {
          order.push(index);
        }),
      ),
    );
    t.same(order, wanted, 'order');
  });

  test('WL-021 two hundred readers and writers never overlap where they must not', async (t) => {
    const name = t.name();
    let readers = 0;
    let writers = 0;
    let most = 0;
    const visit = (mode) =>
      t.locks.request(name, { mode }, async () => {
        mode === 'shared' ? readers++ : writers++;
        most = Math.max(most, readers);
        t.ok(writers <= 1 && (writers === 0 || readers === 0), `${writers} writers beside ${readers} readers`);
        await t.turn();
        mode === 'shared' ? readers-- : writers--;
      });
    const modes = Array.from({ length: 200 }, (_, index) => ((index * 7919) % 5 < 3 ? 'shared' : 'exclusive'));
    await Promise.all(modes.map(visit));
    t.ok(most > 1, 'readers were together at least once');
  });

  test('WL-038 WL-055 WL-086 ifAvailable behind a queued exclusive request gets null', async (t) => {
    const name = t.name();
    await t.held(name, shared);
    t.hold(name);
    await t.expectModes(name, ['shared'], ['exclusive']);
    const answer = await t.locks.request(name, { mode: 'shared', ifAvailable: true }, (lock) => lock);
    t.equal(answer, null, 'the lock');
    await t.expectModes(name, ['shared'], ['exclusive']);
  });

  test('WL-055 WL-087 ifAvailable on a free name is granted', async (t) => {
    const name = t.name();
    const held = await t.held(name, { ifAvailable: true });
    t.equal(held.lock.name, name, 'lock');
    await t.expectModes(name, ['exclusive'], []);
    const readers = t.name('readers');
    await t.held(readers, { ifAvailable: true, mode: 'shared' });
    const second = await t.held(readers, { ifAvailable: true, mode: 'shared' });
    t.equal(second.lock.mode, 'shared', 'a second reader');
  });

  test('WL-056 WL-086 ifAvailable on a taken name runs the callback with null and takes its result', async (t) => {
    const name = t.name();
    await t.held(name);
    t.equal(
      await t.locks.request(name, { ifAvailable: true }, (lock) => (lock === null ? 'no' : 'yes')),
      'no',
      'result',
    );
    const error = new Error('mine');
    await t.rejects(
      t.locks.request(name, { ifAvailable: true }, () => {
        throw error;
      }),
      { is: error },
      'throw',
    );
    await t.rejects(
      t.locks.request(name, { ifAvailable: true }, async () => Promise.reject(error)),
      { is: error },
      'rejection',
    );
    await t.expectModes(name, ['exclusive'], []);
  });

  test('WL-086 a callback that got null holds nothing while it runs', async (t) => {
    const name = t.name();
    const first = await t.held(name);
    const second = t.hold(name, { ifAvailable: true });
    t.equal(await second.granted, null, 'the lock');
    await t.expectModes(name, ['exclusive'], []);
    first.release();
    const third = await t.held(name);
    t.ok(third.lock, 'a third is granted while the null callback goes on');
  });

  test('WL-087 after await request() an immediate ifAvailable by the same client gets the lock', async (t) => {
    const name = t.name();
    for (let round = 0; round < 20; round++) {
      await t.locks.request(name, () => {});
      t.ok(await t.locks.request(name, { ifAvailable: true }, (lock) => lock !== null), `round ${round}`);
    }
  });

  test('WL-012 the empty string, NUL, emoji and very odd names are names like any other', async (t) => {
    for (const name of [
      '',
      '\0',
      'a\0b',
      '🔒',
      'e\u0301',
      '\u00e9',
      '\ufeff',
      '\u202e',
      ' ',
      '../../etc/passwd',
      '__proto__',
      'constructor',
      '"',
      '\\u0000',
      '\n',
    ]) {
      const held = await t.held(name);
      t.equal(held.lock.name, name, 'name of the lock');
      await t.expectModes(name, ['exclusive'], [], t.show(name));
      t.equal(
        await t.locks.request(name, { ifAvailable: true }, (lock) => lock),
        null,
        `${t.show(name)} excludes itself`,
      );
      held.release();
      await held.released;
    }
  });

  test('WL-012 names are never normalised', async (t) => {
    const composed = await t.held(t.name('\u00e9'));
    const decomposed = await t.held(t.name('e\u0301'), { ifAvailable: true });
    t.ok(composed.lock && decomposed.lock, 'two names');
    t.ok((await t.held(t.name('É'), { ifAvailable: true })).lock, 'upper case is another name');
  });

  test('WL-012 SP-011 lone surrogates survive and stay distinct', async (t) => {
    const names = ['\ud800', '\ud801', '\udc00', '\ufffd', '\udc00\ud800', '\ud800\ud800\udc00'].map((name) =>
      t.name(name),
    );
    for (const name of names) {
      const held = await t.held(name, { ifAvailable: true });
      t.ok(held.lock !== null, `${JSON.stringify(name)} is a name of its own`);
      t.equal(held.lock.name, name, 'name of the lock');
      await t.expectModes(name, ['exclusive'], [], JSON.stringify(name));
    }
  });

  test('WL-013 a name has no meaning beyond scheduling', async (t) => {
    const url = new URL('/realm/empty.html', globalThis.location?.href ?? 'http://localhost/').href;
    t.equal(await t.locks.request(url, (lock) => lock.name), url, 'a URL is only a name');
  });

  test('WL-015 names joined of percent-encoded parts cannot be mistaken', async (t) => {
    const join = (...parts) => t.name(parts.map(encodeURIComponent).join('/'));
    await t.held(join('a/b', 'c'));
    t.ok((await t.held(join('a', 'b/c'), { ifAvailable: true })).lock, 'two stores, two locks');
    t.equal(
      await t.locks.request(join('a/b', 'c'), { ifAvailable: true }, (lock) => lock),
      null,
      'one store, one lock',
    );
  });

  test('WL-003 the five optional features are there', async (t) => {
    const name = t.name();
    t.equal(await t.locks.request(name, async () => 'value'), 'value', 'a value from the asynchronous work');
    const reader = await t.held(name, shared);
    t.equal(await t.locks.request(name, { ifAvailable: true }, (lock) => lock), null, 'conditional acquisition');
    await t.expectModes(name, ['shared'], [], 'diagnostic query');
    const controller = new AbortController();
    const waiting = t.locks.request(name, { signal: controller.signal }, () => {});
    controller.abort();
    await t.rejects(waiting, 'AbortError', 'abort');
    t.equal(await t.locks.request(name, { steal: true }, (lock) => lock.mode), 'exclusive', 'steal');
    await t.rejects(reader.released, 'AbortError', 'the stolen lock');
  });

  test('WL-103 WL-104 a deadlock hurts only its own two names and ends by abort', async (t) => {
    const [a, b] = [t.name('a'), t.name('b')];
    const holdsA = await t.held(a);
    const holdsB = await t.held(b);
    const controller = new AbortController();
    const wantsB = t.locks.request(b, { signal: controller.signal }, () => 'never');
    const wantsA = t.hold(a);
    await t.expectModes(a, ['exclusive'], ['exclusive']);
    await t.expectModes(b, ['exclusive'], ['exclusive']);
    t.equal(await t.locks.request(t.name('other'), () => 'flows'), 'flows', 'another name');
    controller.abort();
    await t.rejects(wantsB, 'AbortError', 'the aborted half');
    holdsA.release();
    await wantsA.granted;
    holdsB.release();
  });

  test('WL-105 many takers of several names in one strict order all end', async (t) => {
    const names = ['a', 'b', 'c', 'd'].map((each) => t.name(each));
    let active = 0;
    const takeAll = (rest) =>
      rest.length ? t.locks.request(rest[0], () => takeAll(rest.slice(1))) : Promise.resolve(++active);
    const takers = Array.from({ length: 40 }, (_, index) =>
      takeAll(names.filter((_, bit) => (index + 1) & (1 << bit))),
    );
    await t.soon(Promise.all(takers), 'all takers');
    t.equal(active, 40, 'takers that got everything');
  });

  test('SP-001 SP-002 a holder that asks for its own name waits like everybody else', async (t) => {
    const name = t.name();
    await t.locks.request(name, async () => {
      t.equal(await t.locks.request(name, { ifAvailable: true }, (lock) => lock), null, 'no re-entrancy');
    });
    await t.locks.request(name, shared, async () => {
      t.equal(await t.locks.request(name, { ifAvailable: true }, (lock) => lock), null, 'no upgrade');
    });
  });
})();
