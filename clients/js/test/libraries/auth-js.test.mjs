// auth-js: `navigatorLock` runs a critical section under a Web Lock, and steals the lock of a section that
// does not end.

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
    script = await libraryScript(`export * from './auth-js-page.js'`);
    lab = await startLab();
  });
  after(() => lab?.end());

  const stay = ({ page }, ...lock) => page.evaluate((args) => library.stay(...args), lock);
  const leave = ({ page }) => page.evaluate(() => library.leave());
  const end = ({ page }) => page.evaluate(() => library.end());
  const visit = ({ page }, ...lock) => page.evaluate((args) => library.visit(...args), lock);

  for (const timeoutMs of [-1, LONG_MS]) {
    test(`sections of two tabs never overlap, with a timeout of ${timeoutMs}`, async (t) => {
      const own = bench(t, lab);
      // The storage of two tabs does not agree at once, even natively; what this process sees is in order.
      const order = [];
      let inside = 0;
      let most = 0;
      const context = await own.context();
      await context.exposeFunction('entered', (tab) => {
        order.push(tab);
        most = Math.max(most, ++inside);
      });
      await context.exposeFunction('leaving', () => {
        inside--;
      });
      const visits = ({ page }, tab) =>
        page.evaluate(
          ([self, ...args]) => library.visits(...args, () => entered(self).then(leaving)),
          [tab, own.name, timeoutMs, SECTIONS],
        );
      await Promise.all((await openTwo(own, script)).map(visits));
      assert.equal(most, 1, 'one at a time');
      assert.equal(order.length, 2 * SECTIONS);
      assert.ok(order.lastIndexOf(0) > order.indexOf(1) && order.lastIndexOf(1) > order.indexOf(0), 'both take turns');
    });
  }

  test('with a timeout of 0 a lock that the other tab holds is refused at once', async (t) => {
    const own = bench(t, lab);
    const [a, b] = await openTwo(own, script);
    await stay(a, own.name, -1);
    const { result } = await visit(b, own.name, 0);
    assert.match(result.message, /immediately failed/);
    assert.equal(result.isTimeout, true);
    assert.equal(await leave(a), 'left');
    await untilFree(b, own.name);
    assert.equal((await visit(b, own.name, 0)).result, 'visited');
  });

  test('with a positive timeout the lock is waited for', async (t) => {
    const own = bench(t, lab);
    const [a, b] = await openTwo(own, script);
    await stay(a, own.name, LONG_MS);
    const visited = visit(b, own.name, LONG_MS);
    await untilRequested(b, own.name);
    assert.equal(await leave(a), 'left', 'without a theft');
    assert.equal((await visited).result, 'visited');
  });

  test('once a positive timeout is over the lock is stolen, and the holder is told', async (t) => {
    const own = bench(t, lab);
    const [a, b] = await openTwo(own, script);
    await stay(a, own.name, LONG_MS);
    const { result, elapsedMs } = await visit(b, own.name, SHORT_MS);
    assert.equal(result, 'visited');
    // A timer of the engine may be early by the fraction of a millisecond.
    assert.ok(elapsedMs > SHORT_MS - 1, `stolen after ${elapsedMs} ms`);
    const { message, isTimeout } = await end(a);
    assert.match(message, /another request stole it/);
    assert.equal(isTimeout, true);
    await untilFree(a, own.name);
    assert.equal((await visit(a, own.name, 0)).result, 'visited', 'the lock is free again');
  });

  test('the end of a tab ends its section', async (t) => {
    const own = bench(t, lab);
    const [a, b] = await openTwo(own, script);
    await stay(a, own.name, LONG_MS);
    const visited = visit(b, own.name, LONG_MS);
    await untilRequested(b, own.name);
    await a.close();
    const { result, elapsedMs } = await visited;
    assert.equal(result, 'visited');
    assert.ok(elapsedMs < LONG_MS, 'without a theft');
  });
});
