// Two browsers, one customer: the pages in real Chromium, without JavaScript unless a test says so.
// With SCREENSHOTS=FOLDER every page that matters is kept there as a picture.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { launchChromium } from '../../../../clients/js/test/support/chromium.mjs';
import { cleanups, until } from '../../../../clients/js/test/support/cleanup.mjs';
import { startApplication, temporaryFolder } from './application.mjs';

let browser;
before(async () => {
  browser = await launchChromium();
});
after(() => browser.close());

const PICTURES = process.env.SCREENSHOTS;

async function picture(page, name) {
  if (!PICTURES) return;
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true });
}

/** An application in a folder of its own, and people with browsers of their own, all gone when the test ends. */
async function office(t, options = {}) {
  const keep = cleanups();
  t.after(() => keep.end());
  const folder = await temporaryFolder();
  keep.keep(folder, folder.remove);
  const start = async (more = {}) => {
    const app = await startApplication({ data: folder.path, ...options, ...more });
    return keep.keep(app, app.kill);
  };
  let app = await start();
  return {
    url: () => app.url,
    /** SIGKILL, and a new process on the same port. */
    restart: async () => {
      await app.kill();
      app = await start({ port: app.port });
    },
    /** A page in a browser of its own, in which that user has signed in. */
    async person(user, look = {}) {
      const context = await browser.newContext({ javaScriptEnabled: false, baseURL: app.url, ...look });
      keep.keep(context, () => context.close());
      const page = await context.newPage();
      page.setDefaultTimeout(30_000);
      await page.goto('/sign-in');
      await page.getByLabel('Your name').fill(user);
      await page.getByRole('button', { name: 'Go on' }).click();
      assert.equal(await heading(page), 'All customers');
      return page;
    },
  };
}

const edit = (page, name = 'Brightwater Books') =>
  page.getByRole('link', { name: `Edit ${name}`, exact: true }).click();
const heading = (page) => page.getByRole('heading', { level: 1 }).innerText();
const alert = (page) => page.getByRole('alert').innerText();
const phone = (page) => page.getByLabel('Phone');
const save = (page) => page.getByRole('button', { name: 'Save', exact: true }).click();

describe('OL-001 OL-060 two browsers on one customer', () => {
  test('the second is told at once who edits since when, and gets on when the first has saved', async (t) => {
    const { person } = await office(t);
    const [ada, bob] = [await person('Ada'), await person('Bob')];
    await picture(ada, 'list');
    await edit(ada);
    assert.equal(await heading(ada), 'Brightwater Books');
    await picture(ada, 'edit');

    await bob.reload();
    assert.match(
      await bob.getByRole('row', { name: /Brightwater Books\b/ }).innerText(),
      /Ada is editing\s+since \d\d:\d\d UTC/,
    );
    await picture(bob, 'list-busy');
    await edit(bob);
    assert.equal(await heading(bob), 'Somebody else is editing this customer');
    assert.match(await alert(bob), /Ada is editing Brightwater Books since \d\d:\d\d UTC, for \d+ seconds? now/);
    await picture(bob, 'taken');
    await bob.getByRole('link', { name: 'Only look at it' }).click();
    assert.match(await bob.locator('main').innerText(), /may be about to change/);
    await picture(bob, 'view-busy');

    await phone(ada).fill('0101');
    await save(ada);
    assert.match(await ada.getByRole('status').innerText(), /Saved/);
    await picture(ada, 'saved');
    await bob.getByRole('link', { name: 'Edit', exact: true }).click();
    assert.equal(await phone(bob).inputValue(), '0101');
  });

  test('a cancel gives the customer back as it was', async (t) => {
    const { person } = await office(t);
    const [ada, bob] = [await person('Ada'), await person('Bob')];
    await edit(ada);
    await phone(ada).fill('typed in vain');
    await ada.getByRole('button', { name: 'Cancel' }).click();
    await edit(bob);
    assert.notEqual(await phone(bob).inputValue(), 'typed in vain');
  });

  test('somebody with JavaScript and dark colours sees the same', async (t) => {
    const { person } = await office(t);
    const ada = await person('Ada', { javaScriptEnabled: true, colorScheme: 'dark' });
    await edit(ada);
    await picture(ada, 'edit-dark');
    await phone(ada).fill('0101');
    await save(ada);
    assert.match(await ada.getByRole('status').innerText(), /Saved/);
  });
});

describe('OL-035 OL-036 a browser that was closed', () => {
  test('frees its customer by itself', async (t) => {
    const { person } = await office(t, { timeout: '4s' });
    const ada = await person('Ada');
    await edit(ada);
    await ada.context().close();
    const bob = await person('Bob');
    await until(
      async () => {
        await bob.goto('/customers/1/edit');
        return (await heading(bob)) === 'Brightwater Books';
      },
      'the session of the closed browser has ended',
      30_000,
    );
  });
});

describe('OL-028 OL-059 a save that comes too late', () => {
  test('stands beside what was saved in the meantime, and nothing typed is lost', async (t) => {
    const { person } = await office(t);
    const [ada, bob] = [await person('Ada'), await person('Bob')];
    await edit(ada);
    await phone(ada).fill('of Ada');
    // In another tab she goes elsewhere, which gives this customer back.
    const other = await ada.context().newPage();
    await other.goto('/customers/5/edit');
    await edit(bob);
    await save(ada);
    assert.match(await alert(ada), /Bob is editing Brightwater Books/);
    assert.equal(await phone(ada).inputValue(), 'of Ada');
    await picture(ada, 'save-taken');

    await phone(bob).fill('of Bob');
    await save(bob);
    await ada.getByRole('button', { name: 'Try to save again' }).click();
    assert.match(await alert(ada), /It has changed in the meantime/);
    assert.equal(await phone(ada).inputValue(), 'of Ada');
    assert.match(await ada.locator('#phone-current').innerText(), /Saved in the meantime:\s+of Bob/);
    await picture(ada, 'save-changed');
    await ada.setViewportSize({ width: 360, height: 720 });
    await picture(ada, 'save-changed-narrow');
    await ada.getByRole('button', { name: 'Save what I typed' }).click();
    assert.match(await ada.getByRole('status').innerText(), /Saved/);
    assert.match(await ada.locator('main').innerText(), /of Ada/);
  });

  test('after the end of its session goes along with a new sign-in', async (t) => {
    const { person } = await office(t, { timeout: '4s' });
    const ada = await person('Ada');
    await edit(ada);
    await phone(ada).fill('typed before the break');
    const watcher = await (await browser.newContext({ baseURL: new URL(ada.url()).origin })).newPage();
    await until(
      async () => {
        await watcher.goto('/locks');
        return /Nothing is locked/.test(await watcher.locator('main').innerText());
      },
      'her session has ended',
      30_000,
    );
    await watcher.context().close();
    await save(ada);
    assert.match(await alert(ada), /Your session has ended/);
    assert.equal(await phone(ada).inputValue(), 'typed before the break');
    await picture(ada, 'save-session-ended');
    await ada.getByLabel('Your name').fill('Ada');
    await ada.getByRole('button', { name: 'Sign in and save' }).click();
    assert.match(await ada.getByRole('status').innerText(), /Saved/);
    assert.match(await ada.locator('main').innerText(), /typed before the break/);
  });

  test('with a fault keeps the customer and says what to mend', async (t) => {
    const { person } = await office(t);
    const ada = await person('Ada');
    await edit(ada);
    await ada.getByLabel('Name', { exact: true }).fill('');
    await phone(ada).fill('0101');
    await save(ada);
    assert.match(await alert(ada), /The customer is still yours/);
    assert.equal(await ada.getByLabel('Name', { exact: true }).getAttribute('aria-invalid'), 'true');
    assert.equal(await phone(ada).inputValue(), '0101');
    await picture(ada, 'save-faulty');
    await ada.getByLabel('Name', { exact: true }).fill('Brightwater');
    await save(ada);
    assert.equal(await heading(ada), 'Brightwater');
  });
});

describe('OL-057 two customers at once', () => {
  test('are locked both or none, and merged under both locks', async (t) => {
    const { person } = await office(t);
    const [ada, bob] = [await person('Ada'), await person('Bob')];
    await edit(bob, 'Brightwater Bookshop');
    const compare = async () => {
      await ada.goto('/customers/1');
      await ada.getByLabel('Another customer').selectOption({ label: 'Brightwater Bookshop, Harwich' });
      await ada.getByRole('button', { name: 'Compare the two' }).click();
    };
    await compare();
    assert.match(await alert(ada), /Bob is editing Brightwater Bookshop/);
    await ada.goto('/locks');
    assert.doesNotMatch(await ada.locator('main').innerText(), /customer\/1/);

    await bob.getByRole('button', { name: 'Cancel' }).click();
    await compare();
    await picture(ada, 'merge');
    await bob.goto('/locks');
    assert.match(await bob.locator('main').innerText(), /customer\/1\s+Ada[\s\S]+customer\/2\s+Ada/);
    await picture(bob, 'locks');
    await ada.getByRole('button', { name: 'Merge' }).click();
    assert.match(await ada.getByRole('status').innerText(), /Merged/);
    assert.match(await ada.locator('main').innerText(), /Window display stand/);
  });

  test('on the phone two colleagues read together, and a third may not edit', async (t) => {
    const { person } = await office(t);
    const [ada, bob, grace] = [await person('Ada'), await person('Bob'), await person('Grace')];
    for (const page of [ada, bob]) await page.goto('/customers/1/call');
    await picture(bob, 'call');
    await edit(grace);
    assert.match(await alert(grace), /Ada is on the phone about Brightwater Books/);
    for (const page of [ada, bob]) await page.getByRole('button', { name: 'Hang up' }).click();
    await grace.getByRole('link', { name: 'Try again' }).click();
    assert.equal(await heading(grace), 'Brightwater Books');
  });
});

describe('OL-063 the application is killed and started again', () => {
  test('whoever edited goes on, and nobody else got in between', async (t) => {
    const { person, restart } = await office(t);
    const [ada, bob] = [await person('Ada'), await person('Bob')];
    await edit(ada);
    await phone(ada).fill('typed before the kill');
    await restart();
    await edit(bob);
    assert.match(await alert(bob), /Ada is editing Brightwater Books/);
    await save(ada);
    assert.match(await ada.getByRole('status').innerText(), /Saved/);
    await bob.getByRole('link', { name: 'Try again' }).click();
    assert.equal(await phone(bob).inputValue(), 'typed before the kill');
  });
});

describe('every page', () => {
  test('can be used by keyboard, has labels, one heading and a title, and fits a narrow screen', async (t) => {
    const { person, url } = await office(t);
    const ada = await person('Ada', { javaScriptEnabled: true, viewport: { width: 360, height: 720 } });
    for (const path of [
      '/customers',
      '/customers/1',
      '/customers/1/edit',
      '/customers/1/call',
      '/customers/1/merge?with=2',
      '/locks',
      '/sign-in',
      '/nowhere',
    ]) {
      await ada.goto(`${url()}${path}`);
      assert.equal(await ada.locator('h1').count(), 1, path);
      assert.match(await ada.title(), /. · Customers$/, path);
      const { unlabelled, wider } = await ada.evaluate(() => ({
        unlabelled: [...document.querySelectorAll('input:not([type=hidden]), textarea, select')].filter(
          (field) => !field.labels.length,
        ).length,
        wider: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      }));
      assert.deepEqual({ unlabelled, wider }, { unlabelled: 0, wider: 0 }, path);
      await ada.keyboard.press('Tab');
    }
    await ada.goto(`${url()}/customers`);
    await picture(ada, 'list-narrow');
    await ada.keyboard.press('Tab');
    assert.equal(await ada.evaluate(() => document.activeElement.textContent), 'Skip to the content');
    await ada.goto(`${url()}/sign-in`);
    await picture(ada, 'sign-in');
  });
});
