// What goes wrong: a server that stands still or ends, scripts that do not come, breaks that are stopped.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import WebSocket from 'ws';
import { connect } from '../../../clients/js/dist/lockhouse.js';
import { launchChromium } from '../../../clients/js/test/support/chromium.mjs';
import { cleanups, until } from '../../../clients/js/test/support/cleanup.mjs';
import { startServer, stopProcess } from '../../../clients/js/test/support/server.mjs';
import { visit } from './visit.mjs';
import { hold } from './world.mjs';

/** Longer than a page waits for an answer, or until it asks again after one that did not come. */
const LATE = { timeout: 20_000 };

/** A server, a page of it, and a way to connect clients; all end with the test, the last first. */
async function begin(t) {
  const { keep, end } = cleanups();
  t.after(end);
  const start = async (port = 0) => {
    const server = await startServer({ port, args: ['--lease', '5m'] });
    return keep(server, () => server.kill());
  };
  const server = await start();
  const browser = await launchChromium();
  keep(browser, () => browser.close());
  const client = (clientId) => {
    const made = connect(server.url, { clientId, WebSocket });
    return keep(made, () => made.close());
  };
  /** Lets the server stand still; the result lets it go on, as does the end of the test. */
  const stall = async () => {
    await stopProcess(server.pid);
    const goOn = () => process.kill(server.pid, 'SIGCONT');
    return keep(goOn, goOn);
  };
  return { server, start, stall, client, page: await visit(t, browser, server.url) };
}

/** Marks the page; the result asserts that it was not loaded anew since. */
async function mark(page) {
  await page.evaluate(() => {
    globalThis.isSame = true;
  });
  return async () => assert.equal(await page.evaluate(() => globalThis.isSame), true, 'the page was loaded anew');
}

describe('a server that does not answer', () => {
  test('because it stands still is told so, and what it says later shows without a reload', async (t) => {
    const { stall, client, page } = await begin(t);
    await hold(client('before'), 'of-before');
    await page.open('locks');
    await page.sees('of-before');
    const isSame = await mark(page);
    await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
    const goOn = await stall();
    await page.getByRole('button', { name: /^\d+ s old$/ }).waitFor();
    await page.getByRole('button', { name: 'No answer' }).waitFor(LATE);
    await page.locator('.notice', { hasText: 'has not answered in 10 s' }).waitFor();
    goOn();
    await hold(client('after'), 'of-after');
    await page.locator('main').getByText('of-after').waitFor(LATE);
    await page.getByRole('button', { name: 'Live', exact: true }).waitFor(LATE);
    await isSame();
  });

  test('because it has ended is told so, and so is the next one at its place', async (t) => {
    const { server, start, client, page } = await begin(t);
    await page.open('locks');
    const isSame = await mark(page);
    await server.kill();
    await page.getByRole('button', { name: 'No answer' }).waitFor();
    await start(server.port);
    await hold(client('after'), 'of-after');
    await page.sees('of-after');
    await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
    await isSame();
  });

  test('leaves a break unknown', async (t) => {
    const { stall, client, page } = await begin(t);
    await hold(client('holder'), 'stuck');
    await page.clock.install();
    await page.open('name?name=stuck');
    await page.getByRole('button', { name: 'Break…' }).click();
    await stall();
    const asked = page.waitForRequest(/\/locks\/break$/);
    await page.getByRole('button', { name: 'Break this hold' }).click();
    await asked;
    await page.clock.fastForward(30_000);
    const dialog = page.getByRole('dialog', { name: 'Result' });
    await dialog.getByText('1 unknown: it may have happened').waitFor();
    await dialog.getByText('has not answered in 30 s').waitFor();
  });
});

test('a server that asks for a very long pause is asked again after half a minute', async (t) => {
  const { client, page } = await begin(t);
  await hold(client('waiting for long'), 'one');
  await page.clock.install();
  const problem = { code: 'rate_limited', title: 'Too many', detail: 'much later' };
  let refusals = 1;
  await page.route('**/query?*', (route) =>
    refusals-- > 0
      ? route.fulfill({ status: 429, headers: { 'Retry-After': '3600' }, json: problem })
      : route.continue(),
  );
  await page.open('locks');
  await page.locator('.notice', { hasText: 'much later' }).waitFor();
  await page.clock.fastForward(30_000);
  await page.sees('waiting for long');
});

test('a page that is seen again asks at once', async (t) => {
  const { page } = await begin(t);
  const show = (state) =>
    page.evaluate((state) => {
      Object.defineProperty(document, 'visibilityState', { get: () => state, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, state);
  const answer = page.waitForResponse(/\/v1\/buckets$/);
  await page.open('fleet');
  await answer;
  await show('hidden');
  // The list of buckets is asked for every fifteen seconds else.
  const asked = page.waitForRequest(/\/v1\/buckets$/, { timeout: 8000 });
  await show('visible');
  await asked;
});

describe('a break of many', () => {
  /** A page on which the second portion of a break of 130 waits until `goOn` is called. */
  async function breakMany(t) {
    const { client, page } = await begin(t);
    const many = client('many');
    await Promise.all(Array.from({ length: 130 }, (_, number) => hold(many, `bulk/${number}`)));
    let calls = 0;
    let goOn;
    const isToGoOn = new Promise((resolve) => {
      goOn = resolve;
    });
    await page.route('**/locks/break', async (route) => {
      if (++calls === 2) await isToGoOn;
      await route.continue();
    });
    await page.open('locks?prefix=bulk%2F');
    await page.sees('130 locks on page 1');
    await page.getByLabel('Choose all on this page').check();
    await page.getByRole('button', { name: 'Break…' }).click();
    await page.getByRole('button', { name: 'Break 130 holds' }).click();
    await page.getByRole('dialog').getByText('60 of 130 done').waitFor();
    return { page, goOn };
  }

  for (const [how, press] of [
    ['by its button', (page) => page.getByRole('button', { name: 'Stop', exact: true }).click()],
    ['by its cross', (page) => page.getByRole('button', { name: 'Close' }).click()],
    [
      'by keys',
      async (page) => {
        for (let times = 0; times < 3; times++) await page.keyboard.press('Escape');
      },
    ],
  ]) {
    test(`is stopped ${how}, stays to be seen, and says what was done`, async (t) => {
      const { page, goOn } = await breakMany(t);
      await press(page);
      await page.getByRole('button', { name: 'Stops after this portion…' }).waitFor();
      goOn();
      const dialog = page.getByRole('dialog', { name: 'Result' });
      await dialog.getByText('120 broken, 10 not tried').waitFor();
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
      await page.sees('10 locks on page 1');
    });
  }

  test('with very long names fits into its calls', async (t) => {
    const { client, page } = await begin(t);
    const many = client('many');
    const names = Array.from({ length: 50 }, (_, number) => `${number} ${'ж'.repeat(3000)}`);
    await Promise.all(names.map((name) => hold(many, name)));
    await page.open('locks');
    await page.sees('50 locks on page 1');
    await page.getByLabel('Choose all on this page').check();
    await page.getByRole('button', { name: 'Break…' }).click();
    await page.getByRole('button', { name: 'Break 50 holds' }).click();
    await page.getByRole('dialog').getByText('50 broken').waitFor();
  });
});

describe('a way through the dashboard', () => {
  test('leads over the nodes of a picture without a reload, or to another tab where that is asked for', async (t) => {
    const { client, page } = await begin(t);
    await hold(client('holder'), 'one');
    client('waiter')
      .locks.request('one', () => {})
      .catch(() => {});
    await page.open('waits');
    const node = page.locator('.graph a', { hasText: 'holder' });
    await node.waitFor();
    const isSame = await mark(page);
    const other = page.context().waitForEvent('page');
    await node.click({ modifiers: ['Control'] });
    await (await other).close();
    assert.equal(new URL(page.url()).pathname, '/dashboard/waits');
    await node.click();
    await page.locator('h1', { hasText: 'Locks' }).waitFor();
    assert.equal(new URL(page.url()).search, '?client=holder');
    await isSame();
  });

  test('begins at the content for keys, by the skip link and after each change of page', async (t) => {
    const { page } = await begin(t);
    const isFocused = (what) => page.waitForFunction((what) => document.activeElement?.matches(what), what);
    await page.open('locks');
    const address = page.url();
    await page.keyboard.press('Tab');
    await isFocused('.skip');
    await page.keyboard.press('Enter');
    await isFocused('#content');
    assert.equal(page.url(), address);
    await page.getByRole('link', { name: 'Claims' }).click();
    await isFocused('#content[aria-label=Claims]');
    await page.getByLabel('Begins with').fill('seat/');
    await page.getByLabel('Begins with').press('Enter');
    await page.waitForURL(/prefix=seat/);
    await isFocused('input[name=prefix]');
  });

  test('goes to the page before in a list, over what was opened on it and over a reload', async (t) => {
    const { client, page } = await begin(t);
    const { offline } = client('office');
    for (let number = 0; number < 401; number++) await offline.open({ label: `owner ${number}`, ttlMs: 600_000 });
    await page.open('owners');
    for (const number of [2, 3]) {
      await page.getByRole('button', { name: 'Next page' }).click();
      await page.sees(`on page ${number}`);
    }
    await page.reload();
    await page.sees('1 owner on page 3');
    await page.getByRole('button', { name: 'Previous' }).click();
    await page.sees('200 owners on page 2');
    await page.rows
      .getByRole('link', { name: /^owner/ })
      .first()
      .click();
    await page.locator('.detail').waitFor();
    await page.getByRole('button', { name: 'Previous' }).click();
    await page.sees('200 owners on page 1');
    assert.equal(new URL(page.url()).search, '');
  });

  test('has a title for each of two dialogs', async (t) => {
    const { client, page } = await begin(t);
    await hold(client('holder'), 'one');
    await page.open('name?name=one');
    await page.getByRole('button', { name: 'Break…' }).click();
    const refusal = { code: 'unauthenticated', title: 'No key', detail: 'no key' };
    await page.route('**/overview', (route) => route.fulfill({ status: 401, json: refusal }));
    await page.locator('dialog').nth(1).waitFor();
    const titles = await page
      .locator('dialog')
      .evaluateAll((all) => all.map((it) => document.getElementById(it.getAttribute('aria-labelledby')).textContent));
    assert.deepEqual(titles, ['Break this hold?', 'API key']);
  });
});

describe('the page "Try it"', () => {
  test('loads its client again where that failed', async (t) => {
    const { page } = await begin(t);
    let failures = 1;
    await page.route('**/lockhouse.global.js', (route) => (failures-- > 0 ? route.abort() : route.continue()));
    await page.open('try');
    await page.sees('connection lost, trying again');
    await page.locator('#connection[data-state=open]').waitFor();
    await page.getByRole('button', { name: 'exclusive' }).click();
    await page.getByRole('button', { name: 'release' }).waitFor();
    await page.locator('#held li').waitFor();
  });

  test('asks nothing of the server for its requests while it is paused', async (t) => {
    const { page } = await begin(t);
    await page.open('try');
    await page.locator('#connection[data-state=open]').waitFor();
    await page.getByRole('button', { name: 'Live', exact: true }).click();
    await until(() => page.underWay.size === 0, 'what was under way has ended');
    const asked = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.getByRole('button', { name: 'exclusive' }).click();
    await page.getByRole('button', { name: 'release' }).click();
    await page.getByText('released').waitFor();
    assert.deepEqual(asked, []);
  });
});
