// The page "try it" of the dashboard: two tabs of it visibly take turns. `SCREENSHOT=FILE.png` keeps a
// picture of the waiting tab.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { bench, native, startLab, test } from '../support/lab.mjs';
import { startServer } from '../support/server.mjs';
import { openTry } from '../support/try.mjs';

if (!native) {
  describe('the page "try it"', () => {
    let lab;
    before(async () => {
      lab = await startLab();
    });
    after(() => lab?.end());

    test('WL-004 WL-006 two tabs visibly take turns', async (t) => {
      const { context } = bench(t, lab);
      const [a, b] = [await openTry(await context(), lab.server), await openTry(await context(), lab.server)];
      await a.ask('exclusive');
      await a.sees('mine', 'held, fencing token');
      await b.ask('exclusive');
      await b.sees('mine', 'waits');
      await a.sees('pending', 'place 1');
      for (const tab of [a, b]) {
        await tab.count('held', 1);
        await tab.count('pending', 1);
      }
      if (process.env.SCREENSHOT) await b.page.screenshot({ path: process.env.SCREENSHOT });
      await a.press('release');
      await b.sees('mine', 'held');
      await a.ask('exclusive');
      await a.sees('mine', 'waits');
      await b.page.close();
      await a.sees('mine', 'held');
      await a.count('pending', 0);
      assert.deepEqual([a.problems, b.problems], [[], []]);
    });

    test('WL-056 WL-057 WL-059 the page shows a refusal, an abort and a steal', async (t) => {
      const { context } = bench(t, lab);
      const [a, b] = [await openTry(await context(), lab.server), await openTry(await context(), lab.server)];
      await a.ask('exclusive');
      await a.sees('mine', 'held');
      await b.ask('if available');
      await b.sees('mine', 'not available');
      await b.ask('shared');
      await b.sees('mine', 'waits');
      await b.press('abort');
      await b.sees('mine', 'aborted');
      await b.ask('steal');
      await b.sees('mine', 'held');
      await a.sees('mine', 'AbortError');
      await a.press('dismiss');
      await a.page.locator('#mine .failed').waitFor({ state: 'detached', timeout: 5000 });
      await a.ask('steal');
      await b.sees('mine', 'AbortError');
      await b.ask('if available');
      await b.page.locator('#mine .failed').waitFor({ state: 'detached', timeout: 5000 });
      assert.deepEqual([a.problems, b.problems], [[], []]);
    });

    test('the page says that the connection is lost, and dims what it no longer knows', async (t) => {
      const { context, keep } = bench(t, lab);
      const server = await startServer();
      keep(server, () => server.kill());
      const { page, ask, sees, count } = await openTry(await context(), server);
      await ask('exclusive');
      await sees('mine', 'held');
      await count('held', 1);
      // In one step, as the page may draw its cards anew at any time.
      const opacity = () =>
        page.evaluate(() => Number(getComputedStyle(document.querySelector('#held li') ?? document.body).opacity));
      assert.equal(await opacity(), 1);
      await server.kill();
      await page.locator('#connection', { hasText: 'connection lost, trying again' }).waitFor({ timeout: 5000 });
      assert.ok((await opacity()) < 0.5);
      if (process.env.SCREENSHOT) await page.screenshot({ path: `${process.env.SCREENSHOT}.lost.png` });
    });
  });
}
