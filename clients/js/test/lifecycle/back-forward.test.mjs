// A page in the back/forward cache is no agent: its locks go when it enters, and it connects anew when it
// returns.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { bench, native, startLab, test } from '../support/lab.mjs';

if (!native) {
  describe('the back/forward cache', () => {
    let lab;
    before(async () => {
      lab = await startLab({
        lease: '60s',
        chromium: () => ({ whole: true, ignore: ['--disable-back-forward-cache'] }),
      });
    });
    after(() => lab?.end());

    test('WL-039 a page that enters the cache frees its locks, is told so, and works on return', async (t) => {
      const { tab, process, name } = bench(t, lab);
      const waiter = await process();
      const page = await tab();
      await page.page.evaluate(() => {
        globalThis.restored = new Promise((resolve) =>
          addEventListener('pageshow', (event) => resolve(event.persisted)),
        );
      });
      await page.ask('held', name);
      await page.wait('held', 'granted');
      await page.ask('pending', `${name}:pending`);
      await page.wait('pending', 'granted');
      const [{ clientId: before }] = (await waiter.query(name)).held;
      await waiter.ask('waiting', name);
      assert.deepEqual(await waiter.modes(name), { held: ['exclusive'], pending: ['exclusive'] });
      await page.page.goto(`${lab.env.origin}/bare.html`);
      await waiter.wait('waiting', 'granted', 1000);
      await page.page.goBack({ waitUntil: 'commit' });
      assert.equal(await page.page.evaluate(() => globalThis.restored), true, 'the page came back from the cache');
      assert.match(await page.wait('held', 'rejected'), /^rejected: AbortError/);
      await page.ask('again', name);
      assert.deepEqual(await page.modes(name), { held: ['exclusive'], pending: ['exclusive'] });
      await waiter.release('waiting');
      await page.wait('again', 'granted');
      assert.equal((await waiter.query(name)).held[0].clientId, before, 'one client id per context');
    });
  });
}
