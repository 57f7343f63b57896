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
  const [reader, operator, user] = [
    newKey('reader', 'query'),
    newKey('operator', 'query', 'operate'),
    newKey('user', 'request'),
  ];
  const folder = mkdtempSync(join(tmpdir(), 'dashboard-'));
  let server;
  let browser;
  let client;
  before(async () => {
    const config = join(folder, 'lockhouse.toml');
    writeFileSync(config, [reader, operator, user].map((it) => it.settings).join('\n'));
    server = await startServer({ args: ['--config', config] });
    browser = await launchChromium();
    client = connect(server.url, { key: user.key, clientId: 'holder', WebSocket });
    await hold(client, 'guarded');
  });
  after(async () => {
    await client?.close();
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

  test('without the permission to operate, actions are gone once the server has said so', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.open('sessions');
    await enter(page, reader.key);
    await page.locator('.notice', { hasText: 'operate' }).waitFor();
    await page.getByText('read-only').waitFor();
    await page.getByRole('link', { name: /^Locks/ }).click();
    await page.getByRole('link', { name: 'guarded' }).waitFor();
    assert.equal(await page.getByLabel('Choose').count(), 0);
    await page.getByRole('link', { name: 'guarded' }).click();
    await page.sees('holder');
    assert.equal(await page.getByRole('button', { name: /Break/ }).count(), 0);
    await picture(page, 'read-only-light');
  });

  test('a break that is not permitted says so, and breaks nothing', async (t) => {
    const page = await visit(t, browser, server.url);
    await page.open('name?name=guarded');
    await enter(page, reader.key);
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
