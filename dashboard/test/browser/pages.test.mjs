// Each page of the dashboard on a server with 10^5 locks, in a real browser. `SCREENSHOTS=DIR` keeps
// pictures.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import WebSocket from 'ws';
import { connect } from '../../../clients/js/dist/lockhouse.js';
import { launchChromium } from '../../../clients/js/test/support/chromium.mjs';
import { until } from '../../../clients/js/test/support/cleanup.mjs';
import { startServer } from '../../../clients/js/test/support/server.mjs';
import { LOOKS, picture, violations, visit } from './visit.mjs';
import { FLEET, fill, hold, LABEL_OF_ANNA, ODD } from './world.mjs';

const ALL = 100_000;

/** What the first view may load, compressed. */
const FIRST_VIEW_BYTES = 200_000;

/** How long the page may keep the browser from its user at most, on a machine that does other things, too. */
const LONGEST_TASK_MS = 400;

/** Each page, and what has to be there. */
const PAGES = [
  { name: 'overview', path: '', sees: ['Most contended', 'How long it takes', 'Per second', 'report'] },
  { name: 'locks', path: 'locks', sees: ['catalogue', 'Web Lock', 'on page 1'] },
  { name: 'locks-waiting', path: 'locks?state=pending&sort=age', sees: ['worker-01', 'waits'] },
  { name: 'locks-old', path: 'locks?older=1s&sort=age', sees: ['held'] },
  { name: 'name', path: 'name?name=report', sees: ['reporter', 'nightly run', 'worker-07', '30 requests wait'] },
  { name: 'name-shared', path: 'name?name=catalogue', sees: ['3 holders', 'writer', 'reader-4'] },
  { name: 'name-past', path: 'name?name=report%2Fdaily', sees: ['thief', 'stolen', 'released'] },
  { name: 'owners', path: 'owners', sees: [LABEL_OF_ANNA, 'Importer', '19,980 locks'] },
  { name: 'owner', path: 'owners?label=Bob', sees: ['Bob', '1 lock'] },
  { name: 'claims', path: 'claims', sees: ['seat/1a', 'guest 12'] },
  { name: 'assignments', path: 'assignments', sees: ['seat/1b', 'guest 12'] },
  { name: 'waits', path: 'waits', sees: ['2 cycles', 'transfer-1', 'stage-3'] },
  { name: 'waits-cycles', path: 'waits?only=cycles', sees: ['transfer/1', 'stage/2'] },
  { name: 'sessions', path: 'sessions', sees: ['reporter', 'connected'] },
  { name: 'fleet', path: 'fleet', sees: ['no node of a fleet', 'local-cluster'] },
  { name: 'history', path: 'history', sees: ['stolen', 'expired', 'Carol', 'released'] },
  { name: 'try', path: 'try', sees: ['second tab', /^open$/] },
  { name: 'nothing', path: 'nowhere', sees: ['Nothing is here'] },
];

describe('the dashboard', () => {
  // The history of what is durable is in the store.
  const folder = mkdtempSync(join(tmpdir(), 'dashboard-'));
  let server;
  let world;
  let browser;
  before(async () => {
    server = await startServer({ args: ['--lease', '5m', '--store', `sqlite:${join(folder, 'locks.db')}`] });
    [world, browser] = await Promise.all([fill(server.url), launchChromium()]);
  });
  after(async () => {
    await browser?.close();
    world?.close();
    await server?.kill();
    rmSync(folder, { recursive: true });
  });

  for (const look of Object.keys(LOOKS)) {
    test(`every page shows what is there, in ${look}, and axe finds nothing serious`, {
      timeout: 240_000,
    }, async (t) => {
      const page = await visit(t, browser, server.url, look);
      const found = [];
      for (const { name, path, sees } of PAGES) {
        await page.goto(`${server.url}/dashboard/${path}`);
        for (const text of sees) await page.sees(text);
        const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
        if (inner > outer) found.push(`${name} is ${inner - outer} px wider than the window`);
        // A picture with lines in its charts needs a few looks at the overview.
        if (name === 'overview') await page.waitForTimeout(process.env.SCREENSHOTS ? 9000 : 0);
        await picture(page, `${name}-${look}`);
        found.push(...(await violations(page)).map((violation) => `${name}: ${violation}`));
      }
      assert.deepEqual(found, []);
    });
  }

  // A stand-in answers for the fleet: tests/cluster has real ones, which show what the answer is.
  for (const look of Object.keys(LOOKS)) {
    test(`the nodes and slots of a fleet are shown, in ${look}, and axe finds nothing serious`, async (t) => {
      const page = await visit(t, browser, server.url, look);
      await page.route('**/v1/cluster', (route) => route.fulfill({ json: FLEET }));
      await page.open('fleet');
      await page.sees('4 nodes, 16 slots, 1 of them on the move');
      assert.equal(await page.locator('.node.card').count(), 4);
      assert.equal(await page.locator('.node.card.trouble').count(), 2);
      const third = page.locator('.node.card', { hasText: 'node-3' });
      await third.getByText('the database does not answer').waitFor();
      await third.getByText('4.2 s ago').waitFor();
      await page.locator('.node.card', { hasText: 'node-4\\u{202e}' }).getByText('unknown').waitFor();
      const slots = page.locator('.slot');
      assert.equal(await slots.count(), 16);
      const owners = await slots.evaluateAll((all) =>
        all.map((it) => /node-(\d|free)/.exec(it.className)[1]).join(' '),
      );
      assert.equal(owners, '0 0 0 0 0 0 1 1 1 1 1 2 2 2 3 free');
      assert.equal(await page.locator('.slot.unsettled').count(), 3);
      assert.equal(await page.locator('.slot.unservable').count(), 2);
      for (const text of ['2 slots unservable: 8, 9', '1 slot recovering: 5', '1 slot free: 15']) await page.sees(text);
      assert.equal(await slots.nth(14).getAttribute('title'), 'slot 14: node-4\\u{202e}, unknown, epoch 17');
      await picture(page, `fleet-nodes-${look}`);
      assert.deepEqual(await violations(page), []);
    });
  }

  test('a fleet of one node is told so, and nothing of slots that are all served', async (t) => {
    const page = await visit(t, browser, server.url);
    const one = {
      ...FLEET,
      nodes: FLEET.nodes.slice(0, 1),
      slots: FLEET.slots.slice(1, 2),
      moving: 0,
    };
    await page.route('**/v1/cluster', (route) => route.fulfill({ json: one }));
    await page.open('fleet');
    await page.sees('1 node, 1 slot, none of them on the move');
    assert.equal(await page.getByText(/^\d+ slots? [a-z]+:/).count(), 0);
  });

  test('names are text whatever they say', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.open(`name?name=${encodeURIComponent(ODD.script)}`);
    await page.sees(ODD.script);
    assert.doesNotMatch(await page.title(), /^harm/);
    await page.open('name?name=');
    await page.sees('empty name');
    await page.sees('oddities');
    await page.open('name?name=lone%20%ED%A0%80%20surrogate');
    await page.sees('\\u{d800}');
    await page.sees('oddities');
    await page.open(`name?name=${encodeURIComponent(ODD.override)}`);
    await page.sees('\\u{202e}');
    await page.open(`name?name=${encodeURIComponent(ODD.lines)}`);
    await page.sees('\\u{a}');
    await page.sees('oddities');
    await page.open(`name?name=${encodeURIComponent(ODD.long)}`);
    await page.sees('oddities');
    await picture(page, 'name-long-light');
    const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(inner <= outer, 'a long name makes the page wider');
    await page.open('locks?client=oddities');
    await page.rows.nth(Object.keys(ODD).length - 1).waitFor();
    await picture(page, 'names-odd-light');
    // By its link, a name that is no UTF-8 is found again.
    await page.getByText('surrogate').first().click();
    await page.locator('h1', { hasText: 'surrogate' }).waitFor();
    await page.sees('oddities');
  });

  test('the name of a bucket, and what a tooltip says, are as plain as names', async (t) => {
    const page = await visit(t, browser, server.url);
    const odd = connect(`${server.url}?bucket=${encodeURIComponent('odd\u202e')}`, { clientId: 'x\u202ey', WebSocket });
    t.after(() => odd.close());
    await hold(odd, 'n');
    await page.open(`name?bucket=${encodeURIComponent('odd\u202e')}&name=n`);
    await page.locator('.lanes .bar').waitFor();
    assert.match(await page.locator('.lanes .bar').getAttribute('title'), /^x\\u\{202e\}y: Web Lock/);
    assert.match(await page.title(), /· odd\\u\{202e\} ·/);
    assert.equal(await page.getByLabel('Bucket').locator('option:checked').textContent(), 'odd\\u{202e}');
  });

  test('the first view is small, and its files are kept by the browser', async (t) => {
    const page = await visit(t, browser, server.url);
    const loaded = new Map();
    page.on('response', (response) => loaded.set(new URL(response.url()).pathname, response));
    await page.open('');
    await page.sees('Most contended');
    const files = [...loaded].filter(([path]) => path.startsWith('/dashboard'));
    const bodies = await Promise.all(files.map(([, response]) => response.body()));
    const bytes = bodies.reduce((total, body) => total + gzipSync(body).length, 0);
    t.diagnostic(`first view: ${files.length} files, ${bytes} bytes compressed`);
    assert.ok(
      files.length >= 4 && bytes > 20_000 && bytes < FIRST_VIEW_BYTES,
      `${bytes} bytes in ${files.length} files`,
    );
    for (const [path, response] of files) {
      const { 'cache-control': cache, etag } = await response.allHeaders();
      if (path.startsWith('/dashboard/assets/')) assert.equal(cache, 'public, max-age=31536000, immutable', path);
      else assert.ok(cache === 'no-cache' && etag?.startsWith('"'), path);
    }
  });

  test('10^5 locks are shown, scrolled and kept up to date without a stall', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.addInitScript(() => {
      globalThis.longest = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) globalThis.longest = Math.max(globalThis.longest, entry.duration);
      }).observe({ type: 'longtask', buffered: true });
    });
    await page.open('');
    const held = page.locator('.figure', { hasText: 'Held' }).first().locator('.figure-value');
    assert.ok(Number((await held.textContent()).replaceAll(',', '')) >= ALL);
    await held.click();
    await page.rows.first().waitFor();
    assert.equal(new URL(page.url()).search, '?state=held');
    assert.ok((await page.rows.count()) < 80, 'rows that are not seen are rendered');
    await page.rows.first().focus();
    for (let step = 0; step < 60; step++) await page.keyboard.press('ArrowDown');
    await page.locator('.rows [role=row][data-index="60"]:focus').waitFor();
    await page.keyboard.press('End');
    await page.locator('.rows [role=row][data-index="499"]:focus').waitFor();
    for (const number of [2, 3]) {
      await page.getByRole('button', { name: 'Next page' }).click();
      await page.sees(`on page ${number}`);
    }
    const last = await page.rows.first().textContent();
    await page.goBack();
    await page.sees('on page 2');
    await page.goForward();
    await page.sees('on page 3');
    await page.rows.first().waitFor();
    assert.equal(await page.rows.first().textContent().then(nameOf), nameOf(last));
    // Through some turns of the polls.
    await page.waitForResponse(/\/overview/);
    await page.waitForResponse(/\/query/);
    const longest = await page.evaluate(() => globalThis.longest);
    t.diagnostic(`longest task: ${longest} ms`);
    assert.ok(longest < LONGEST_TASK_MS, `one task took ${longest} ms`);
  });

  test('filters, sort and page are in the address, and come back from it', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.open('locks');
    await page.getByLabel('Name begins with').fill('seat/');
    await page.getByLabel('Name begins with').press('Enter');
    await page.locator('select[name=kind]').selectOption('claim');
    await page.getByLabel('Who').fill('guest 7');
    await page.getByLabel('Who').press('Enter');
    await page.getByRole('button', { name: 'Since' }).click();
    await page.sees('1 lock on page 1');
    const { search } = new URL(page.url());
    assert.equal(search, '?prefix=seat%2F&kind=claim&client=guest%207&sort=age');
    await page.reload();
    await page.sees('1 lock on page 1');
    await page.sees('seat/7a');
    assert.equal(await page.getByLabel('Name begins with').inputValue(), 'seat/');
    assert.equal(await page.locator('select[name=kind]').inputValue(), 'claim');
    await page.getByLabel('Token').fill('many');
    await page.getByLabel('Token').press('Enter');
    await page.locator('.notice', { hasText: 'fencingToken' }).waitFor();
    await picture(page, 'problem-light');
    await page.getByRole('link', { name: 'Clear filters' }).click();
    await page.sees('500 locks on page 1');
    await page.getByRole('link', { name: 'Older than 1 day' }).click();
    await page.sees('Nothing matches');
    assert.equal(new URL(page.url()).search, '?older=1d&sort=age');
  });

  test('an exact name is found from everywhere by its key, and each place has its own', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.open('fleet');
    await page.keyboard.press('/');
    await page.keyboard.type('customer/42');
    await page.keyboard.press('Enter');
    await page.locator('h1', { hasText: 'customer/42' }).waitFor();
    await page.sees(LABEL_OF_ANNA);
    await page.sees('offline lock');
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    await picture(page, 'help-light');
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByRole('link', { name: LABEL_OF_ANNA }).first().click();
    await page.sees('desk 4');
    await page.sees('price/7');
    await picture(page, 'owner-detail-light');
    assert.deepEqual(await violations(page), []);
  });

  test('a loss leads to just what it counts', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.open('');
    const lost = page.locator('section', { has: page.getByRole('heading', { name: /^Lost/ }) });
    const stolen = lost.getByRole('row', { name: /^stolen/ });
    const figure = Number((await stolen.locator('.number').textContent()).replaceAll(',', ''));
    await stolen.getByRole('link').click();
    await page.sees(`${figure} end${figure === 1 ? '' : 's'} on page 1`);
    assert.notEqual(await page.getByLabel('From', { exact: true }).inputValue(), '');
    await page.goBack();
    await lost.getByRole('row', { name: /^ttl/ }).getByRole('link', { name: 'claim' }).click();
    await page.sees('guest 98');
    const { searchParams } = new URL(page.url());
    assert.deepEqual([searchParams.get('end'), searchParams.get('kind')], ['expired', 'claim']);
  });

  test('a name with more holders than one answer has shows the request behind them', async (t) => {
    const page = await visit(t, browser, server.url);
    const crowd = world.client('crowd');
    await Promise.all(Array.from({ length: 1100 }, () => hold(crowd, 'crowded', { mode: 'shared' })));
    world
      .client('last writer')
      .locks.request('crowded', () => {})
      .catch(() => {});
    await page.open('name?name=crowded');
    await page.sees('more than 1,000 holders');
    await page.sees('1 request waits');
    await page.locator('.queue').getByText('last writer').waitFor();
    await crowd.close();
  });

  test('a name whose ends lie further back than one answer looks is not said to be unknown', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.open('name?name=never');
    await page.sees('No lock of this name is known');
    await page.sees('nothing yet');
    // As of a server that has looked at as many ends as it does at once.
    await page.route('**/history?*', (route) => route.fulfill({ json: { entries: [], next: '00' } }));
    await page.open('name?name=never');
    await page.sees('nothing among the latest ends');
    assert.equal(await page.getByText('No lock of this name is known').count(), 0);
    await page.getByRole('link', { name: 'look further back' }).click();
    assert.equal(new URL(page.url()).pathname, '/dashboard/history');
  });

  test('a client that waits for its own agents, or for itself, is on no cycle', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.open('waits');
    await page.sees('2 cycles');
    await page.locator('.graph .edge', { hasText: 'alike' }).first().waitFor();
    assert.equal(await page.locator('.graph .edge.cyclic').count(), 5);
    assert.equal(await page.locator('.graph .node.cyclic').count(), 5);
    await page.getByRole('button', { name: 'Cycles alone' }).click();
    await page.locator('.graph .edge', { hasText: 'alike' }).first().waitFor({ state: 'detached' });
    assert.equal(await page.locator('.graph .edge').count(), 5);
  });

  test('what happens shows by itself, until it is paused', async (t) => {
    const page = await visit(t, browser, server.url);
    const client = world.client('lively');
    const release = await hold(client, 'lively/1');
    await page.open('name?name=lively%2F1');
    await page.sees('Held by');
    release();
    await page.sees('Free: nothing holds it');
    const again = await hold(client, 'lively/1');
    await page.sees('Held by');
    await page.keyboard.press('p');
    await page.getByRole('button', { name: /^Paused at/ }).waitFor();
    await until(() => page.underWay.size === 0, 'what was under way has ended');
    const asked = [];
    page.on('request', (request) => asked.push(request.url()));
    again();
    await client.locks.request('lively/1', () => {});
    // Longer than what is live leaves between two questions.
    await page.waitForTimeout(3000);
    assert.deepEqual(asked, []);
    assert.ok(await page.getByText('Held by').isVisible());
    await page.getByRole('button', { name: /^Paused at/ }).click();
    await page.sees('Free: nothing holds it');
  });

  test('a hold is broken once its holder and token are confirmed, and its successor is not', async (t) => {
    const page = await visit(t, browser, server.url);
    const [victim, next] = [world.client('victim'), world.client('successor')];
    const lost = new Promise((resolve) => {
      victim.locks.request('breakable', () => new Promise(() => {})).catch(resolve);
    });
    await page.open('name?name=breakable');
    await page.sees('victim');
    const following = hold(next, 'breakable');
    await page.sees('1 request waits');
    await page.getByRole('button', { name: 'Break…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText(/Web Lock of victim, token \d+/).waitFor();
    await picture(page, 'break-light');
    assert.deepEqual(await violations(page), []);
    await dialog.getByLabel('Reason').fill('it hangs');
    await dialog.getByRole('button', { name: 'Break this hold' }).click();
    await dialog.getByText('1 broken').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).last().click();
    assert.match(String(await lost), /it hangs/);
    await following;
    await page.sees('successor');
    await page.locator('.past', { hasText: 'it hangs' }).waitFor();
  });

  test('many holds are broken at once, in one list of results', async (t) => {
    const page = await visit(t, browser, server.url);
    const many = world.client('many');
    await Promise.all(Array.from({ length: 130 }, (_, number) => hold(many, `bulk/${number}`)));
    const calls = [];
    page.on(
      'request',
      (request) => request.url().endsWith('/locks/break') && calls.push(request.postDataJSON().holds.length),
    );
    await page.open('locks?prefix=bulk%2F');
    await page.sees('130 locks on page 1');
    await page.getByLabel('Choose all on this page').check();
    await page.sees('130 chosen');
    await page.getByRole('button', { name: 'Break…' }).click();
    await picture(page, 'break-many-light');
    await page.getByRole('button', { name: 'Break 130 holds' }).click();
    await page.getByRole('dialog').getByText('130 broken').waitFor();
    assert.equal(await page.getByRole('dialog').locator('.results li').count(), 130);
    await picture(page, 'break-results-light');
    assert.deepEqual(calls, [60, 60, 10]);
    await page.keyboard.press('Escape');
    await page.sees('Nothing matches');
  });

  test('assignments are not chosen among holds, and are taken back in their own words', async (t) => {
    const page = await visit(t, browser, server.url);
    const { claims } = world.client('clerk');
    await claims.claim('desk/1', { claimant: 'visitor', ttlMs: 600_000 });
    for (const number of [2, 3]) {
      const claim = await claims.claim(`desk/${number}`, { claimant: 'visitor', ttlMs: 600_000 });
      await claim.finalize();
    }
    await page.open('locks?prefix=desk%2F');
    await page.sees('3 locks on page 1');
    await page.getByLabel('Choose all on this page').check();
    await page.sees('1 chosen');
    assert.equal(await page.getByRole('checkbox', { name: 'Choose desk/1 of visitor' }).count(), 1);
    assert.equal(await page.getByRole('checkbox', { name: 'Choose desk/' }).count(), 1);
    await page.getByRole('button', { name: 'Break…' }).first().click();
    await page.getByRole('dialog', { name: 'Break this hold?' }).waitFor();
    await page.keyboard.press('Escape');
    await page.open('assignments?prefix=desk%2F');
    await page.sees('2 assignments on page 1');
    await page.getByLabel('Choose all on this page').check();
    await page.locator('.bulk').getByRole('button', { name: 'Take back…' }).click();
    await page.getByRole('button', { name: 'Take back 2 assignments' }).click();
    await page.getByRole('dialog').getByText('2 taken back').waitFor();
  });

  test('a break is of the bucket whose hold was shown, whatever the address is then', async (t) => {
    const page = await visit(t, browser, server.url);
    const holders = ['staging', 'prod'].map((bucket) =>
      connect(`${server.url}?bucket=${bucket}`, { clientId: `holder in ${bucket}`, WebSocket }),
    );
    t.after(() => Promise.all(holders.map((it) => it.close())));
    for (const holder of holders) await hold(holder, 'twin');
    await page.open('name?bucket=staging&name=twin');
    await page.sees('holder in staging');
    await page.getByLabel('Bucket').selectOption('prod');
    await page.getByRole('link', { name: 'twin' }).click();
    await page.sees('holder in prod');
    await page.getByRole('button', { name: 'Break…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Break this hold?' });
    await dialog.getByText('In the bucket prod').waitFor();
    await page.goBack();
    await dialog.waitFor({ state: 'detached' });
    await page.goForward();
    const asked = page.waitForRequest(/\/locks\/break$/);
    await page.getByRole('button', { name: 'Break…' }).click();
    await dialog.getByRole('button', { name: 'Break this hold' }).click();
    assert.match((await asked).url(), /\/buckets\/prod\/locks\/break$/);
    await page.getByRole('dialog').getByText('1 broken').waitFor();
    await page.keyboard.press('Escape');
    await page.open('name?bucket=staging&name=twin');
    await page.sees('holder in staging');
  });

  test('the switch of colours holds over a reload', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.open('claims');
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.getByRole('button', { name: 'Dark colours' }).click();
    const dark = await ground();
    assert.notEqual(dark, light);
    await page.reload();
    assert.equal(await ground(), dark);
  });
});

/** The name in the text of a row, which begins with it. */
const nameOf = (text) => /^part\/\d+|^[\w/ ]+?(?=held)/.exec(text)?.[0];
