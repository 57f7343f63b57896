// The demo page of the server: two tabs of it visibly take turns. `SCREENSHOT=FILE` keeps a picture.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { bench, native, startLab, test } from '../support/lab.mjs';

if (!native) {
  describe('the demo page', () => {
    let lab;
    before(async () => {
      lab = await startLab();
    });
    after(() => lab?.end());

    test('WL-004 opens without errors', async (t) => {
      const { context } = bench(t, lab);
      const page = await (await context()).newPage();
      const problems = [];
      page.on('pageerror', (error) => problems.push(String(error)));
      page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
      const response = await page.goto(`${lab.server.url}/`);
      assert.equal(response.status(), 200);
      await page.waitForLoadState('networkidle');
      if (process.env.SCREENSHOT) await page.screenshot({ path: process.env.SCREENSHOT });
      assert.deepEqual(problems, []);
    });
  });
}
