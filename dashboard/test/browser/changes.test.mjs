// What pages show while things change: times, and rows that move.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import WebSocket from 'ws';
import { connect } from '../../../clients/js/dist/lockhouse.js';
import { launchChromium } from '../../../clients/js/test/support/chromium.mjs';
import { startServer } from '../../../clients/js/test/support/server.mjs';
import { visit } from './visit.mjs';
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
});
