// What pages show while things change, of a bucket that is empty, and after a restart.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import WebSocket from 'ws';
import { connect } from '../../../clients/js/dist/lockhouse.js';
import { launchChromium } from '../../../clients/js/test/support/chromium.mjs';
import { startServer } from '../../../clients/js/test/support/server.mjs';
import { violations, visit } from './visit.mjs';
import { hold } from './world.mjs';

/** Asks for a lock, and leaves the request in the queue. */
const ask = (client, name) => void client.locks.request(name, () => new Promise(() => {})).catch(() => {});

describe('the dashboard, while things change', () => {
  let server;
  let browser;
  const clients = [];
  const client = (clientId, bucket = 'default') => {
    const made = connect(`${server.url}?bucket=${bucket}`, { clientId, WebSocket });
    clients.push(made);
    return made;
  };
  before(async () => {
    server = await startServer({ args: ['--lease', '5m'] });
    browser = await launchChromium();
  });
  after(async () => {
    await Promise.all(clients.map((it) => it.close()));
    await browser?.close();
    await server?.kill();
  });

  test('how long a request has waited goes on while the same clients wait', async (t) => {
    const page = await visit(t, browser, server.url);
    await hold(client('holder'), 'slow');
    ask(client('patient'), 'slow');
    await page.open('waits');
    const cell = page.getByRole('row', { name: /patient/ }).locator('.number');
    const first = await cell.textContent();
    await page.waitForFunction(
      (text) => [...document.querySelectorAll('td.number')].every((it) => it.textContent !== text),
      first,
    );
    assert.match(await page.locator('.graph .edge title').first().textContent(), /^slow: waits for [\d.]+ m?s$/);
  });

  test('a list without its first answer says that it loads, not that it is empty', async (t) => {
    const page = await visit(t, browser, server.url);
    await hold(client('early'), 'first/answer');
    let answer;
    const wanted = new Promise((resolve) => {
      answer = resolve;
    });
    await page.route('**/query?*', async (route) => {
      await wanted;
      await route.continue();
    });
    await page.open('locks?prefix=first%2F');
    await page.sees('Loading…');
    assert.equal(await page.getByText('0 locks').count(), 0);
    answer();
    await page.sees('1 lock on page 1');
  });

  test('on a phone, the present page is in sight among the pages', async (t) => {
    const page = await visit(t, browser, server.url, 'phone');
    await page.open('fleet');
    await page.waitForFunction(() => {
      const { left, right } = document.querySelector('.side nav [aria-current]').getBoundingClientRect();
      return left >= 0 && right <= innerWidth;
    });
  });

  test('what is typed once a break is asked for is its reason', async (t) => {
    const page = await visit(t, browser, server.url);
    await hold(client('typed'), 'typed/reason');
    await page.open('name?name=typed%2Freason');
    await page.getByRole('button', { name: 'Break…' }).click();
    await page.getByRole('dialog').waitFor();
    await page.keyboard.type('deadlock');
    assert.equal(await page.getByRole('textbox', { name: 'Reason' }).inputValue(), 'deadlock');
  });

  test('a name of which the server says nothing is not said to be free', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.route('**/query?*', (route) => route.abort());
    await page.open('name?name=unknown');
    await page.locator('.notice').waitFor();
    assert.equal(await page.getByText('none waits').count(), 0);
  });

  test('a cycle is not said to be a deadlock, as its clients may have tasks of their own', async (t) => {
    const page = await visit(t, browser, server.url);
    const [one, two] = [client('one', 'ring'), client('two', 'ring')];
    await hold(one, 'a');
    await hold(two, 'b');
    ask(one, 'b');
    ask(two, 'a');
    await page.open('waits?bucket=ring');
    await page.sees(
      'One cycle: these clients may wait for ever, unless one of them holds and asks in tasks of their own',
    );
  });

  test('keys act on the row in focus, wherever it moves, and go on at its place once it has gone', async (t) => {
    const page = await visit(t, browser, server.url);
    const mover = client('mover');
    await hold(mover, 'move/b');
    const release = await hold(mover, 'move/c');
    await page.open('locks?prefix=move%2F');
    await page.sees('2 locks on page 1');
    await page.rows.nth(1).focus();
    await hold(mover, 'move/a');
    await page.sees('3 locks on page 1');
    const focused = page.locator('.rows [role=row]:focus');
    await focused.getByText('move/c').waitFor();
    await page.keyboard.press('Space');
    await page.sees('1 chosen');
    assert.ok(await page.getByRole('checkbox', { name: 'Choose move/c of mover' }).isChecked());
    release();
    await page.sees('2 locks on page 1');
    await focused.getByText('move/b').waitFor();
    await page.keyboard.press('ArrowUp');
    await focused.getByText('move/a').waitFor();
    await page.keyboard.press('Enter');
    await page.locator('h1', { hasText: 'move/a' }).waitFor();
  });

  test('a request in focus stays so when it moves on in its queue', async (t) => {
    const page = await visit(t, browser, server.url);
    const release = await hold(client('first'), 'queue');
    await page.open('locks?name=queue&sort=age');
    for (const [index, who] of ['second', 'third', 'fourth'].entries()) {
      ask(client(who), 'queue');
      await page.sees(`${index + 2} locks on page 1`);
    }
    const focused = page.locator('.rows [role=row]:focus', { hasText: 'third' });
    await page.locator('.rows [role=row]', { hasText: 'third' }).focus();
    await focused.getByText('#2').waitFor();
    release();
    await page.sees('3 locks on page 1');
    await focused.getByText('#1').waitFor();
  });

  test('the row in focus stays in reach of the keys when many come before it', async (t) => {
    const page = await visit(t, browser, server.url);
    const crowd = client('crowd');
    await hold(crowd, 'far/z');
    await page.open('locks?prefix=far%2F');
    await page.sees('1 lock on page 1');
    await page.rows.first().focus();
    await Promise.all(Array.from({ length: 200 }, (_, number) => hold(crowd, `far/${number}`)));
    await page.sees('201 locks on page 1');
    const focused = page.locator('.rows [role=row]:focus');
    await focused.getByText('far/z').waitFor();
    await page.keyboard.press('ArrowUp');
    await focused.getByText('far/99').waitFor();
  });

  test('the command of an empty page fills the bucket that is shown', async (t) => {
    const page = await visit(t, browser, server.url);
    const commands = async (path, bucket) => {
      await page.open(`${path}${path.includes('?') ? '&' : '?'}bucket=${encodeURIComponent(bucket)}`);
      return page.locator('.empty code').textContent();
    };
    const found = {};
    for (const path of [
      '',
      'locks',
      'name?name=x',
      'claims',
      'sessions',
      'assignments',
      'owners',
      'waits',
      'history',
    ]) {
      found[path] = await commands(path, 'jobs');
    }
    assert.deepEqual(found, {
      '': 'lockhouse run --bucket jobs report -- sleep 60',
      locks: 'lockhouse run --bucket jobs report -- sleep 60',
      'name?name=x': 'lockhouse run --bucket jobs x -- sleep 60',
      claims: 'lockhouse claim --bucket jobs seat/7c --claimant Anna --ttl 5min',
      sessions: 'lockhouse run --bucket jobs report -- sleep 60',
      assignments:
        'lockhouse claim --bucket jobs seat/7c --claimant Anna\nlockhouse finalize --bucket jobs seat/7c TOKEN',
      owners: 'export $(lockhouse owner open --bucket jobs Anna)\nlockhouse lock --bucket jobs customer/42',
      waits: [
        "lockhouse run --bucket jobs a -- sh -c 'sleep 4; lockhouse run b -- echo both'",
        "lockhouse run --bucket jobs b -- sh -c 'sleep 4; lockhouse run a -- echo both'",
      ].join('\n'),
      history: 'lockhouse run --bucket jobs report -- true',
    });
    assert.match(await commands('locks', "it's"), /^lockhouse run --bucket 'it'\\''s' report/);
    assert.match(await commands('claims', 'default'), /^lockhouse claim seat/);
    await page.open('try?bucket=jobs');
    await page.getByText('lockhouse run --bucket jobs report').waitFor();
  });

  test('an instant in the address of the history has its zone, and the field has local time', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.open('history');
    const from = page.getByLabel('From', { exact: true });
    await from.fill('2026-01-02T03:04:05');
    await from.press('Enter');
    await page.waitForURL(/from=/);
    const expected = await page.evaluate(() => new Date('2026-01-02T03:04:05').toISOString());
    assert.equal(new URL(page.url()).searchParams.get('from'), expected);
    await page.reload();
    assert.equal(await from.inputValue(), '2026-01-02T03:04:05');
  });

  test('a filter that cannot be read says how it is written', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.open('locks');
    const older = page.getByLabel('Older than', { exact: true });
    await older.fill('long');
    await older.press('Enter');
    await page.getByRole('alert').filter({ hasText: 'A number and a unit: 500ms, 90s' }).waitFor();
    assert.equal(await older.getAttribute('aria-describedby'), await page.getByRole('alert').getAttribute('id'));
    assert.deepEqual(await violations(page), []);
    await older.fill('5min');
    await older.press('Enter');
    await page.getByRole('alert').waitFor({ state: 'detached' });
    assert.equal(new URL(page.url()).search, '?older=5min');
  });

  test('rates, refusals and percentiles lead to what is nearest to them', async (t) => {
    const page = await visit(t, browser, server.url);
    const past = client('past', 'figures');
    const release = await hold(past, 'figure');
    await past.locks.request('figure', { ifAvailable: true }, () => {});
    await page.open('?bucket=figures');
    const refused = page.locator('section', { has: page.getByRole('heading', { name: /^Refused/ }) });
    const address = async (link) => {
      const { pathname, searchParams } = new URL(await link.getAttribute('href'), page.url());
      return [
        pathname.replace('/dashboard/', ''),
        ...['end', 'kind', 'state', 'sort'].map((it) => searchParams.get(it)),
      ];
    };
    const taken = refused.getByRole('row', { name: /^taken/ }).getByRole('link');
    assert.deepEqual(await address(taken), ['history', 'refused', null, null, null]);
    const link = (name) => page.locator('main').getByRole('link', { name, exact: true });
    assert.deepEqual(await address(link(/^Waits \d/)), ['locks', null, null, 'pending', 'age']);
    assert.deepEqual(await address(link(/^Holds: claim/)), ['history', null, 'claim', null, null]);
    assert.deepEqual(await address(link('granted')), ['locks', null, null, 'held', null]);
    assert.deepEqual(await address(link('refused')), ['history', 'refused', null, null, null]);
    await taken.click();
    await page.sees('1 end on page 1');
    release();
    await page.open('?bucket=figures');
    await link(/^Holds: Web Lock/).click();
    await page.sees('released');
  });

  test('what clients and servers have written is plain wherever it stands', async (t) => {
    const page = await visit(t, browser, server.url);
    await hold(client('writer'), 'noted', { metadata: 'one\u202e\ntwo\u0007' });
    await page.open('name?name=noted');
    assert.equal(await page.locator('.metadata').textContent(), 'one\\u{202e}\ntwo\\u{7}');
    await page.route('**/query?*', (route) =>
      route.fulfill({
        status: 422,
        json: { code: 'invalid', title: 'Odd\u202e', detail: 'it\u202e', field: 'f\u202e' },
      }),
    );
    await page.open('claims');
    const text = await page.locator('.notice').textContent();
    for (const word of ['Odd', 'it', 'f']) assert.ok(text.includes(`${word}\\u{202e}`), text);
  });

  test('a long list of holders and requests says how many more there are', async (t) => {
    const page = await visit(t, browser, server.url);
    const [crowd, late] = [client('crowd'), client('late')];
    await Promise.all(Array.from({ length: 130 }, () => hold(crowd, 'long', { mode: 'shared' })));
    for (let turn = 0; turn < 140; turn++) ask(late, 'long');
    await page.open('name?name=long');
    await page.sees('140 requests wait');
    assert.deepEqual([await page.locator('.holds li').count(), await page.locator('.queue li').count()], [100, 100]);
    await page.getByRole('link', { name: '30 more' }).waitFor();
    await page.getByRole('link', { name: '40 more' }).click();
    await page.sees('140 locks on page 1');
  });

  test('the history on a phone says by whom and why', async (t) => {
    const page = await visit(t, browser, server.url, 'phone');
    await hold(client('victim', 'phone'), 'stuck');
    const api = `${server.url}/v1/buckets/phone`;
    const [{ name, fencingToken }] = (await (await fetch(`${api}/query`)).json()).entries;
    const broken = await fetch(`${api}/locks/break`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ holds: [{ name, fencingToken }], reason: 'it hangs' }),
    });
    assert.equal(broken.status, 200);
    await page.open('history?bucket=phone');
    await page.sees('it hangs');
    const [row, why] = [page.rows.first(), page.rows.first().getByText('it hangs')];
    const [outer, inner] = [await row.boundingBox(), await why.boundingBox()];
    assert.ok(inner.y >= outer.y && inner.y + inner.height <= outer.y + outer.height, 'it is cut off');
    assert.deepEqual(await violations(page), []);
  });

  test('an owner is closed without a change of the list', async (t) => {
    const page = await visit(t, browser, server.url);
    const office = client('office', 'owners');
    for (const label of ['Anna', 'Bob']) await office.offline.open({ label, ttlMs: 600_000 });
    await page.open('owners?bucket=owners&label=Anna');
    await page.getByRole('link', { name: 'Anna' }).click();
    await page.getByRole('heading', { name: /^Anna/ }).waitFor();
    await page.getByRole('link', { name: 'Close' }).click();
    await page.waitForURL((url) => url.search === '?bucket=owners&label=Anna');
    await page.sees('1 owner on page 1');
  });
});

test('after a restart, pages say that holders from before are waited for', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'dashboard-'));
  const args = ['--store', `sqlite:${join(folder, 'locks.db')}`, '--lease', '1m'];
  let server = await startServer({ args });
  const browser = await launchChromium();
  t.after(async () => {
    await browser.close();
    await server.kill();
    rmSync(folder, { recursive: true });
  });
  const client = connect(server.url, { clientId: 'gone', WebSocket });
  await hold(client, 'kept');
  await server.kill();
  await client.close();
  server = await startServer({ args });
  const page = await visit(t, browser, server.url);
  const line =
    /^The server has restarted, and waits up to \d+ s for holders from before: their locks may be missing\.$/;
  await page.open('name?name=kept');
  await page.sees(line);
  await page.sees('No holder is known yet.');
  assert.equal(await page.getByText('Free: nothing holds it').count(), 0);
  await page.open('locks');
  await page.sees(line);
  await page.sees('No lock is known yet.');
  await page.open('');
  await page.sees(line);
  assert.equal(await page.getByText('Nothing is held, and nothing waits.').count(), 0);
  await page.open('waits');
  await page.sees(line);
  assert.deepEqual(await violations(page), []);
});
