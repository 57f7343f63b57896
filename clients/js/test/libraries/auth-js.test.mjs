// auth-js: `navigatorLock` runs a critical section under a Web Lock, and steals the lock of a holder that does
// not come to its end.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { bench, startLab, test } from '../support/lab.mjs';
import { libraryScript, openTwo, untilFree, untilRequested } from './library.mjs';

const SECTIONS = 30;
/** Longer than anything that is waited for takes. */
const LONG_MS = 30_000;
const SHORT_MS = 200;

describe('@supabase/auth-js', () => {
  let lab;
  let script;
  before(async () => {
    script = await libraryScript(`export { navigatorLock, NavigatorLockAcquireTimeoutError } from '@supabase/auth-js'`);
    lab = await startLab();
  });
  after(() => lab?.end());

  /** Holds the lock in a tab until `release`; `ended` tells how that ended. */
  async function hold({ page }, name, timeoutMs) {
    await page.evaluate(
      ([lockName, timeout]) =>
        new Promise((resolve) => {
          globalThis.ended = library
            .navigatorLock(lockName, timeout, () => {
              resolve();
              return new Promise((release) => {
                globalThis.release = release;
              });
            })
            .then(
              () => 'released',
              (error) => ({
                message: error.message,
                isAcquireTimeout: error.isAcquireTimeout,
                isOfItsClass: error instanceof library.NavigatorLockAcquireTimeoutError,
              }),
            );
        }),
      [name, timeoutMs],
    );
    return {
      release: () => page.evaluate(() => release()),
      ended: () => page.evaluate(() => ended),
    };
  }

  /** Tries for the lock in a tab: what came of it, and after which time. */
  const enter = ({ page }, name, timeoutMs) =>
    page.evaluate(
      async ([lockName, timeout]) => {
        const start = performance.now();
        const end = await library
          .navigatorLock(lockName, timeout, async () => ({ entered: true }))
          .catch((error) => ({
            message: error.message,
            isAcquireTimeout: error.isAcquireTimeout,
            isOfItsClass: error instanceof library.NavigatorLockAcquireTimeoutError,
          }));
        return { ...end, elapsedMs: performance.now() - start };
      },
      [name, timeoutMs],
    );

  for (const timeoutMs of [-1, LONG_MS]) {
    test(`sections of two tabs never overlap, with a timeout of ${timeoutMs}`, async (t) => {
      const own = bench(t, lab);
      // The browser tells a tab late what another one wrote into its storage; this process sees both at once.
      const order = [];
      let inside = 0;
      const context = await own.context();
      await context.exposeFunction('enter', (tab) => {
        order.push(tab);
        return ++inside;
      });
      await context.exposeFunction('leave', () => --inside);
      const sections = ({ page }, tab) =>
        page.evaluate(
          async ([name, timeout, times, self]) => {
            const counts = [];
            const section = async () => {
              counts.push(await enter(self));
              await leave();
            };
            for (let each = 0; each < times; each++) await library.navigatorLock(name, timeout, section);
            return counts;
          },
          [own.name, timeoutMs, SECTIONS, tab],
        );
      const counts = await Promise.all((await openTwo(own, script)).map(sections));
      assert.deepEqual(new Set(counts.flat()), new Set([1]), 'sections at the same time');
      assert.equal(order.length, 2 * SECTIONS);
      assert.ok(order.lastIndexOf(0) > order.indexOf(1) && order.lastIndexOf(1) > order.indexOf(0), 'both take turns');
    });
  }

  test('with a timeout of 0 a lock that the other tab holds is refused at once', async (t) => {
    const own = bench(t, lab);
    const [a, b] = await openTwo(own, script);
    const held = await hold(a, own.name, -1);
    const { message, isAcquireTimeout, isOfItsClass } = await enter(b, own.name, 0);
    assert.match(message, /immediately failed/);
    assert.deepEqual({ isAcquireTimeout, isOfItsClass }, { isAcquireTimeout: true, isOfItsClass: true });
    await held.release();
    assert.equal(await held.ended(), 'released');
    await untilFree(b, own.name);
    assert.equal((await enter(b, own.name, 0)).entered, true);
  });

  test('with a positive timeout the lock is waited for', async (t) => {
    const own = bench(t, lab);
    const [a, b] = await openTwo(own, script);
    const held = await hold(a, own.name, LONG_MS);
    const entered = enter(b, own.name, LONG_MS);
    await untilRequested(b, own.name);
    await held.release();
    assert.equal((await entered).entered, true);
    assert.equal(await held.ended(), 'released');
  });

  test('once a positive timeout is over the lock is stolen, and the holder is told', async (t) => {
    const own = bench(t, lab);
    const [a, b] = await openTwo(own, script);
    const held = await hold(a, own.name, LONG_MS);
    const { entered, elapsedMs } = await enter(b, own.name, SHORT_MS);
    assert.equal(entered, true);
    assert.ok(elapsedMs > SHORT_MS - 1, `stolen after ${elapsedMs} ms`);
    const { message, isAcquireTimeout, isOfItsClass } = await held.ended();
    assert.match(message, /another request stole it/);
    assert.deepEqual({ isAcquireTimeout, isOfItsClass }, { isAcquireTimeout: true, isOfItsClass: true });
    await untilFree(a, own.name);
    assert.equal((await enter(a, own.name, 0)).entered, true, 'the lock is free again');
  });

  test('the end of a tab ends its section', async (t) => {
    const own = bench(t, lab);
    const [a, b] = await openTwo(own, script);
    await hold(a, own.name, LONG_MS);
    const entered = enter(b, own.name, LONG_MS);
    await untilRequested(b, own.name);
    await a.close();
    const { elapsedMs, ...end } = await entered;
    assert.deepEqual(end, { entered: true });
    assert.ok(elapsedMs < LONG_MS, 'without a theft');
  });
});
