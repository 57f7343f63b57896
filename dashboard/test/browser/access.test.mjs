// Who may do what: the key of the page, and what it leaves out without the permission to operate.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import WebSocket from 'ws';
import { connect } from '../../../clients/js/dist/lockhouse.js';
import { launchChromium } from '../../../clients/js/test/support/chromium.mjs';
import { until } from '../../../clients/js/test/support/cleanup.mjs';
import { lockhouseBinary, startServer } from '../../../clients/js/test/support/server.mjs';
import { picture, violations, visit } from './visit.mjs';
import { hold } from './world.mjs';

/** A key with these permissions, and the settings that admit it. */
function newKey(id, ...permissions) {
  const options = permissions.flatMap((permission) => ['--permission', permission]);
  const run = spawnSync(lockhouseBinary(), ['key', 'new', '--id', id, ...options], { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
  return { key: /LOCKHOUSE_KEY=(\S+)/.exec(run.stderr)[1], settings: run.stdout };
}

describe('the dashboard of a server with keys', () => {
  const [reader, operator, user, partial] = [
    newKey('reader', 'query'),
    newKey('operator', 'query', 'operate'),
    newKey('user', 'request'),
    newKey('partial', 'query'),
  ];
  // The settings of a key end with the permissions in its buckets.
  partial.settings += 'orders = ["operate"]\n';
  const folder = mkdtempSync(join(tmpdir(), 'dashboard-'));
  let server;
  let browser;
  const clients = [];
  before(async () => {
    const config = join(folder, 'lockhouse.toml');
    writeFileSync(config, [reader, operator, user, partial].map((it) => it.settings).join('\n'));
    server = await startServer({ args: ['--config', config] });
    browser = await launchChromium();
    clients.push(
      connect(server.url, { key: user.key, clientId: 'holder', WebSocket }),
      connect(`${server.url}?bucket=orders`, { key: user.key, clientId: 'buyer', WebSocket }),
    );
    for (const client of clients) await hold(client, 'guarded');
  });
  after(async () => {
    await Promise.all(clients.map((it) => it.close()));
    await browser?.close();
    await server?.kill();
    rmSync(folder, { recursive: true });
  });

  const enter = async (page, key) => {
    await page.getByRole('dialog').getByLabel('API key or token').fill(key);
    await page.getByRole('button', { name: 'Use this key' }).click();
  };

  test('the key is asked for once, and is in memory alone', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.open('name?name=guarded');
    await page.getByRole('dialog', { name: 'API key' }).waitFor();
    await picture(page, 'key-light');
    assert.deepEqual(await violations(page), []);
    await enter(page, 'lhk_wrong_key');
    await page.getByRole('dialog', { name: 'API key' }).waitFor();
    await enter(page, reader.key);
    await page.sees('holder');
    await page.getByRole('link', { name: 'Claims' }).click();
    await page.sees('No claim is there');
    const kept = await page.evaluate(() =>
      [JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.cookie, location.href].join(),
    );
    assert.ok(!kept.includes(reader.key), kept);
    await page.getByRole('button', { name: 'Forget key' }).click();
    await page.getByRole('dialog', { name: 'API key' }).waitFor();
  });

  test('without the permission to operate, no action is offered', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.open('locks');
    await enter(page, reader.key);
    await page.getByText('read-only').waitFor();
    await page.getByRole('link', { name: 'guarded' }).waitFor();
    assert.equal(await page.getByLabel('Choose').count(), 0);
    await page.getByRole('link', { name: 'guarded' }).click();
    await page.sees('holder');
    assert.equal(await page.getByRole('button', { name: /Break/ }).count(), 0);
    await picture(page, 'read-only-light');
  });

  test('what is shown and followed is that of the present key', async (t) => {
    const page = await visit(t, browser, server.url);
    const streams = () => [...page.underWay].filter((request) => /\/events\?/.test(request.url()));
    await page.open('name?name=guarded');
    await page.getByRole('dialog', { name: 'API key' }).waitFor();
    const stream = page.waitForResponse((response) => /\/events\?/.test(response.url()) && response.ok());
    await enter(page, reader.key);
    await stream;
    await page.sees('Held by');
    await page.getByRole('button', { name: 'Forget key' }).click();
    await page.getByRole('dialog', { name: 'API key' }).waitFor();
    await until(() => streams().length === 0, 'the stream of the key that is forgotten has ended');
    assert.doesNotMatch(await page.locator('main').textContent(), /holder/);
  });

  test('a refusal in one bucket, or of the fleet, takes nothing away in another', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.open('fleet?bucket=orders');
    await enter(page, partial.key);
    await page.locator('.notice', { hasText: 'operate' }).waitFor();
    await page.getByLabel('Bucket').selectOption('default');
    await page.getByRole('link', { name: 'Sessions' }).click();
    await page.locator('.notice', { hasText: 'operate' }).waitFor();
    await page.getByText('read-only').waitFor();
    await page.getByLabel('Bucket').selectOption('orders');
    await page.getByText('read-only').waitFor({ state: 'detached' });
    await page.getByRole('link', { name: /^Locks/ }).click();
    await page.getByRole('link', { name: 'guarded' }).click();
    await page.sees('buyer');
    await page.getByRole('button', { name: 'Break…' }).waitFor();
  });

  test('a break that is not permitted says so, and breaks nothing', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.open('name?name=guarded');
    await enter(page, operator.key);
    // The permission is taken away between the look and the break.
    await page.route('**/locks/break', (route) => {
      const headers = { ...route.request().headers(), 'lockhouse-key': reader.key };
      return route.continue({ headers });
    });
    await page.getByRole('button', { name: 'Break…' }).click();
    await page.getByRole('button', { name: 'Break this hold' }).click();
    await page.getByRole('dialog').getByText('1 failed').waitFor();
    await page.getByRole('dialog').getByText('permission').first().waitFor();
    await page.keyboard.press('Escape');
    await page.getByText('read-only').waitFor();
    await page.getByRole('button', { name: /Break/ }).waitFor({ state: 'detached' });
    await page.sees('Held by');
  });

  test('with it, sessions show the name of the credential and never a key', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.open('sessions');
    await enter(page, operator.key);
    await page.sees('holder');
    await page.sees('user');
    const text = await page.locator('main').textContent();
    assert.ok(!text.includes(user.key));
  });
});

describe('the dashboard of a server that asks for a reason of each break', () => {
  const folder = mkdtempSync(join(tmpdir(), 'dashboard-'));
  let server;
  let browser;
  let client;
  before(async () => {
    const config = join(folder, 'lockhouse.toml');
    writeFileSync(config, 'break_reason = "required"\n');
    server = await startServer({ args: ['--config', config] });
    browser = await launchChromium();
    client = connect(server.url, { clientId: 'many', WebSocket });
    await Promise.all(Array.from({ length: 70 }, (_, number) => hold(client, `bulk/${number}`)));
  });
  after(async () => {
    await client?.close();
    await browser?.close();
    await server?.kill();
    rmSync(folder, { recursive: true });
  });

  test('the dialog waits for it, and breaks each hold once', async (t) => {
    const page = await visit(t, browser, server.url);
    const reasons = [];
    page.on('request', (request) => {
      if (request.url().endsWith('/locks/break')) reasons.push(request.postDataJSON().reason);
    });
    await page.open('locks?prefix=bulk%2F');
    await page.sees('70 locks on page 1');
    await page.getByLabel('Choose all on this page').check();
    await page.getByRole('button', { name: 'Break…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Break 70 holds?' });
    await dialog.getByRole('button', { name: 'Break 70 holds' }).click();
    await dialog.getByRole('alert').filter({ hasText: 'reason' }).waitFor();
    await page.locator('input[aria-invalid=true]:focus').waitFor();
    await picture(page, 'break-reason-light');
    assert.deepEqual(await violations(page), []);
    await dialog.getByLabel('Reason').fill('ж'.repeat(129));
    await dialog.getByRole('button', { name: 'Break 70 holds' }).click();
    await dialog.getByRole('alert').filter({ hasText: '258 bytes' }).waitFor();
    await dialog.getByLabel('Reason').fill('they hang');
    await dialog.getByRole('button', { name: 'Break 70 holds' }).click();
    await page.getByRole('dialog').getByText('70 broken').waitFor();
    assert.deepEqual(reasons, [undefined, 'they hang', 'they hang']);
  });
});
