// Where the locks are and who shares them: secure contexts only, and one partition per top site, as for
// storage.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { openFrame, openTab, openWorker } from './support/agents.mjs';
import { bench, native, startLab, test } from './support/lab.mjs';

const HOSTS = ['a.example', 'b.example', 'app.a.example', 'bank.co.uk', 'evil.co.uk', 'plain.example'];
const origins = (port) => Object.fromEntries(HOSTS.map((host) => [host, `http://${host}:${port}`]));

describe('partitions', () => {
  let lab;
  let at;
  before(async () => {
    const secure = (port) => HOSTS.slice(0, -1).map((host) => `http://${host}:${port}`);
    lab = await startLab({
      serverArgs: ({ port }) => secure(port).flatMap((origin) => ['--allow-origin', origin]),
      chromium: ({ port }) => ({
        whole: true,
        args: [
          // The last of several such switches counts: this one keeps the partitioning that Playwright turns
          // off.
          '--disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable',
          `--host-resolver-rules=${HOSTS.map((host) => `MAP ${host} 127.0.0.1`).join(',')}`,
          `--unsafely-treat-insecure-origin-as-secure=${secure(port).join(',')}`,
        ],
      }),
    });
    at = origins(lab.pages.port);
  });
  after(() => lab?.end());

  /** Whether a holder in the one agent keeps the other out. */
  async function contend(a, b, name) {
    await a.ask('hold', name);
    await a.wait('hold', 'granted');
    const free = await b.visit(name, { ifAvailable: true });
    const seen = (await b.query(name)).held.length;
    assert.equal(seen, free ? 0 : 1, 'query and grant agree');
    await a.release('hold');
    await a.wait('hold', 'resolved');
    return !free;
  }

  test('WL-044 an insecure context has no locks', async (t) => {
    const { context } = bench(t, lab);
    const page = await (await context()).newPage();
    await page.goto(
      `${at['plain.example']}/page.html?${new URLSearchParams({ mode: lab.env.mode, url: lab.env.url ?? '' })}`,
    );
    const seen = await page.evaluate(() => [
      isSecureContext,
      'locks' in navigator,
      'LockManager' in globalThis,
      'Lock' in globalThis,
    ]);
    assert.deepEqual(seen, [false, false, false, false]);
  });

  test('WL-109 a frame below another site has a partition of its own', async (t) => {
    const { context, name } = bench(t, lab);
    const own = await openTab(await context(), lab.env, { origin: at['a.example'] });
    const foreign = await openTab(await context(), lab.env, { origin: at['b.example'] });
    const embedded = await openFrame(foreign.page, lab.env, { origin: at['a.example'] });
    assert.equal(await contend(own, embedded, name), false, 'same origin, other top site');
    assert.equal(await contend(embedded, own, `${name}:back`), false, 'and back');
  });

  test('WL-109 WL-110 two frames of one origin below one other site share their partition', async (t) => {
    const { context, name } = bench(t, lab);
    const frames = [];
    for (let tab = 0; tab < 2; tab++) {
      const top = await openTab(await context(), lab.env, { origin: at['b.example'] });
      frames.push(await openFrame(top.page, lab.env, { origin: at['a.example'] }));
    }
    assert.equal(await contend(...frames, name), true);
  });

  test('WL-109 WL-110 a frame of the own site is no partition', async (t) => {
    const { context, name } = bench(t, lab);
    const own = await openTab(await context(), lab.env, { origin: at['a.example'] });
    const frame = await openFrame(own.page, lab.env, { origin: at['a.example'] });
    assert.equal(await contend(own, frame, name), true, 'same origin below itself');
    const sibling = await openTab(await context(), lab.env, { origin: at['app.a.example'] });
    const embedded = await openFrame(sibling.page, lab.env, { origin: at['a.example'] });
    assert.equal(await contend(own, embedded, `${name}:sibling`), true, 'below another host of the same site');
  });

  test('WL-109 sites end where the public suffix list says: one .co.uk is not another', async (t) => {
    const { context, name } = bench(t, lab);
    const own = await openTab(await context(), lab.env, { origin: at['bank.co.uk'] });
    const evil = await openTab(await context(), lab.env, { origin: at['evil.co.uk'] });
    const embedded = await openFrame(evil.page, lab.env, { origin: at['bank.co.uk'] });
    assert.equal(await contend(own, embedded, name), false);
  });

  test('WL-109 WL-110 credentialless frames share their partition within a page, and with no other frame', async (t) => {
    const { context, name } = bench(t, lab);
    const own = await openTab(await context(), lab.env, { origin: at['a.example'] });
    const other = await openTab(await context(), lab.env, { origin: at['a.example'] });
    const frame = (tab) => openFrame(tab.page, lab.env, { origin: at['a.example'], credentialless: true });
    const [first, second, elsewhere] = [await frame(own), await frame(own), await frame(other)];
    assert.equal(await first.frame.evaluate(() => window.credentialless), true);
    assert.equal(await contend(own, first, name), false, 'the page and its frame');
    assert.equal(await contend(first, second, `${name}:two`), true, 'two frames of one page');
    assert.equal(await contend(first, elsewhere, `${name}:pages`), false, 'frames of two pages');
  });

  test('WL-109 a frame below its own site but inside a foreign one is apart from both', async (t) => {
    const { context, name } = bench(t, lab);
    const own = await openTab(await context(), lab.env, { origin: at['a.example'] });
    const between = await openFrame(own.page, lab.env, { origin: at['b.example'] });
    const inner = await openFrame(between.frame, lab.env, { origin: at['a.example'] });
    assert.equal(await contend(own, inner, name), false, 'the foreign frame between them counts');
  });

  test('WL-109 WL-110 a worker shares the partition of its page', async (t) => {
    const { context, name } = bench(t, lab);
    const own = await openTab(await context(), lab.env, { origin: at['a.example'] });
    const top = await openTab(await context(), lab.env, { origin: at['b.example'] });
    const embedded = await openFrame(top.page, lab.env, { origin: at['a.example'] });
    const partition = native ? undefined : await embedded.frame.evaluate(() => installed.partition);
    const worker = await openWorker(embedded.frame, { ...lab.env, origin: at['a.example'] }, 'classic', { partition });
    assert.equal(await contend(embedded, worker, name), true, 'the page and its worker');
    assert.equal(await contend(own, worker, `${name}:own`), false, 'a page of the same origin in a tab of its own');
  });
});
