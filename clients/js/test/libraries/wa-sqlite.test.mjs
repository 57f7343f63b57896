// WA-SQLite: the states in which SQLite locks a file are made of Web Locks.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { bench, startLab, test } from '../support/lab.mjs';
import { libraryScript, openLibrary, openTwo, untilFree, untilRequested } from './library.mjs';

const INCREMENTS = 50;

describe('@journeyapps/wa-sqlite', () => {
  let lab;
  let script;
  before(async () => {
    script = await libraryScript(`export * from './wa-sqlite-page.js'`);
    lab = await startLab();
  });
  after(() => lab?.end());

  test('its own tests of its locks', async (t) => {
    const { page } = await openLibrary(bench(t, lab), await libraryScript(`export * from './specs-page.js'`));
    const results = await page.evaluate(() => library.run());
    assert.ok(results.length >= 25, `it has only ${results.length} tests`);
    for (const { name, status, failures } of results) {
      await t.test(name, () => assert.equal(status, 'passed', failures.join('\n')));
    }
  });

  /** Two tabs with a connection to the same file each. */
  async function openConnections(t, policy) {
    const own = bench(t, lab);
    const connections = (await openTwo(own, script)).map((tab) => ({
      close: tab.close,
      lock: (state) => tab.page.evaluate(([file, to]) => library.lock(file, to), [own.name, state]),
      unlock: (state) => tab.page.evaluate(([file, to]) => library.unlock(file, to), [own.name, state]),
      /** Waits until a request for the lock of that part waits. */
      pending: (part) => untilRequested(tab, `lock##${own.name}##${part}`),
      /** Waits until no tab has the lock of that part. */
      free: (part) => untilFree(tab, `lock##${own.name}##${part}`),
      connect: () => tab.page.evaluate(([file, how]) => library.connect(file, how), [own.name, policy]),
    }));
    for (const connection of connections) await connection.connect();
    return connections;
  }

  for (const policy of ['shared', 'shared+hint']) {
    test(`${policy}: two tabs read side by side, and one of them reserves`, async (t) => {
      const [a, b] = await openConnections(t, policy);
      assert.equal(await a.lock('shared'), 'ok');
      assert.equal(await b.lock('shared'), 'ok');
      assert.equal(await a.lock('reserved'), 'ok');
      assert.equal(await b.lock('reserved'), 'busy');
      assert.equal(await a.unlock('none'), 'ok');
      await b.free('reserved');
      assert.equal(await b.lock('reserved'), 'ok');
    });

    test(`${policy}: a writer waits for the reader in the other tab, and a new reader for the writer`, async (t) => {
      const [a, b] = await openConnections(t, policy);
      assert.equal(await b.lock('shared'), 'ok');
      assert.equal(await a.lock('shared'), 'ok');
      assert.equal(await a.lock('reserved'), 'ok');
      const exclusive = a.lock('exclusive');
      await a.pending('access');
      assert.equal(await b.unlock('none'), 'ok');
      assert.equal(await exclusive, 'ok');
      const shared = b.lock('shared');
      await b.pending('gate');
      assert.equal(await a.unlock('shared'), 'ok');
      assert.equal(await shared, 'ok');
    });
  }

  for (const policy of ['exclusive', 'shared', 'shared+hint']) {
    test(`${policy}: the end of a tab ends its locks`, async (t) => {
      const [a, b] = await openConnections(t, policy);
      assert.equal(await a.lock('shared'), 'ok');
      assert.equal(await a.lock('reserved'), 'ok');
      assert.equal(await a.lock('exclusive'), 'ok');
      const shared = b.lock('shared');
      await b.pending(policy === 'exclusive' ? 'access' : 'gate');
      await a.close();
      assert.equal(await shared, 'ok');
      await b.free('reserved');
      assert.equal(await b.lock('reserved'), 'ok');
      assert.equal(await b.lock('exclusive'), 'ok');
    });

    test(`${policy}: two tabs increment one row, and no increment is lost`, async (t) => {
      const tabs = await openTwo(bench(t, lab), script);
      for (const { page } of tabs) await page.evaluate((how) => library.open(how), policy);
      const increment = ({ page }) => page.evaluate((times) => library.increment(times), INCREMENTS);
      const [a, b] = await Promise.all(tabs.map(increment));
      t.diagnostic(`refused ${a.refused} and ${b.refused} times`);
      const areMixed = a.values[0] < b.values.at(-1) && b.values[0] < a.values.at(-1);
      assert.ok(areMixed || a.refused + b.refused > 0, 'both work at the same time');
      const values = [...a.values, ...b.values].sort((one, other) => one - other);
      assert.deepEqual(
        values,
        Array.from({ length: 2 * INCREMENTS }, (_, before) => before + 1),
      );
      for (const { page } of tabs) assert.equal(await page.evaluate(() => library.read()), 2 * INCREMENTS);
    });
  }
});
