// The box office in real browsers. Screenshots go to `SCREENSHOTS`, if that is set.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { launchChromium } from '../../../../clients/js/test/support/chromium.mjs';
import { openOffice } from './program.mjs';

const TIMEOUT = { timeout: 90_000 };

/** Long enough for a busy machine to press the buttons in time, short enough to wait for its end. */
const SHORT = '8s';

const SCREENSHOTS = process.env.SCREENSHOTS;

describe('the box office', () => {
  let chromium;
  before(async () => {
    chromium = await launchChromium();
    if (SCREENSHOTS) await mkdir(SCREENSHOTS, { recursive: true });
  });
  after(() => chromium?.close());

  /** An office, ended with the test. */
  const office = async (t, hold) => {
    const opened = await openOffice(hold);
    t.after(() => opened.close());
    return opened;
  };

  /**
   * A browser of a visitor of that name, with the hall open in it. What goes wrong in its scripts fails the
   * test.
   */
  const visitor = async (t, { url }, name, options = {}) => {
    const context = await chromium.newContext({ viewport: { width: 1000, height: 820 }, ...options });
    t.after(() => context.close());
    const page = await context.newPage();
    page.setDefaultTimeout(20_000);
    page.on('pageerror', (error) => assert.fail(`${name}: ${error}`));
    await page.goto(url);
    await page.getByLabel('Your name').fill(name);
    const seat = (label) => page.locator(`#seat-${label}`);
    return {
      page,
      seat,
      press: (button) => page.getByRole('button', { name: button }).click(),
      /** Waits until the seat is what is expected, without any reload by the test. */
      sees: (label, what) => page.locator(`#seat-${label}[aria-label="${label}, ${what}"]`).waitFor(),
      heading: (text) => page.getByRole('heading', { level: 1, name: text, exact: true }).waitFor(),
      picture: (file) => SCREENSHOTS && page.screenshot({ path: join(SCREENSHOTS, `${file}.png`) }),
    };
  };

  test('CL-013 a stale payer loses the seat to the next one, who books it', TIMEOUT, async (t) => {
    const hall = await office(t, SHORT);
    const [ada, bob] = [await visitor(t, hall, 'Ada'), await visitor(t, hall, 'Bob')];
    await ada.picture('01-hall');
    await ada.seat('C5').click();
    await ada.heading('C5 is held for you');
    await ada.picture('02-held');
    await bob.sees('C5', 'held for Ada');
    await bob.picture('03-hall-of-the-other');

    await ada.page.getByLabel('With a slow bank').check();
    await ada.press('Pay 45.00');
    await ada.heading('Your bank is at work on C5');
    await ada.picture('04-paying');
    await ada.heading('Your bank is late for C5');
    await bob.sees('C5', 'free, 45.00\u{a0}€');
    await bob.seat('C5').click();
    await bob.heading('C5 is held for you');

    await ada.page.getByText('It is held for Bob').waitFor();
    await ada.picture('05-overdue');
    await ada.press('Let the bank answer now');
    await ada.heading('Lost: somebody else has C5');
    await ada.page.getByText('You were not charged').waitFor();
    await ada.picture('06-lost');

    await bob.press('Pay 45.00');
    await bob.heading('C5 is yours');
    await bob.picture('07-booked');
    await ada.page.getByRole('link', { name: 'Choose another seat' }).click();
    await ada.sees('C5', 'booked by Bob');
  });

  test('CL-014 a late payer whose seat nobody took is told that the time is over', TIMEOUT, async (t) => {
    const hall = await office(t, SHORT);
    const ada = await visitor(t, hall, 'Ada');
    await ada.seat('A1').click();
    await ada.page.getByLabel('With a slow bank').check();
    await ada.press('Pay 65.00');
    await ada.heading('Your bank is late for A1');
    await ada.press('Let the bank answer now');
    await ada.heading('Expired: the time for A1 is over');
    await ada.page.getByText('You were not charged').waitFor();
    await ada.picture('08-expired');
    await ada.press('Choose A1 again');
    await ada.press('Pay 65.00');
    await ada.heading('A1 is yours');
  });

  test('a double click books once, and a reload shows the same booking', TIMEOUT, async (t) => {
    const ada = await visitor(t, await office(t, '2m'), 'Ada');
    await ada.seat('B2').dblclick();
    await ada.heading('B2 is held for you');
    await ada.page.getByRole('button', { name: 'Pay 65.00' }).dblclick();
    await ada.heading('B2 is yours');
    const booking = await ada.page.locator('.ticket').textContent();
    await ada.page.reload();
    assert.equal(await ada.page.locator('.ticket').textContent(), booking);
  });

  test('whoever is a moment too late is told who was faster', TIMEOUT, async (t) => {
    const hall = await office(t, '2m');
    const [ada, bob] = [await visitor(t, hall, 'Ada'), await visitor(t, hall, 'Bob')];
    // His page does not hear of it in time.
    await bob.page.route(`${hall.url}/`, (route) => route.abort());
    await ada.seat('D4').click();
    await ada.heading('D4 is held for you');
    await bob.page.evaluate(() => document.querySelector('[formaction="/seats/D4/claim"]')?.click());
    await bob.heading('D4 is held for Ada');
    await ada.press('Give it back');
    await bob.heading('D4 is free');
  });

  test('the hall is used with the keyboard alone', TIMEOUT, async (t) => {
    const ada = await visitor(t, await office(t, '2m'), 'Ada');
    const { keyboard } = ada.page;
    await ada.page.getByLabel('Your name').focus();
    await keyboard.press('Tab');
    await keyboard.press('Tab');
    const focused = () => ada.page.evaluate(() => document.activeElement.id);
    assert.equal(await focused(), 'seat-A1');
    for (const way of ['Down', 'Down', 'Right', 'Left', 'Right', 'Up', 'Left', 'Left'])
      await keyboard.press(`Arrow${way}`);
    assert.equal(await focused(), 'seat-B1', 'at the wall one stays where one is');
    await ada.picture('09-keyboard');
    await keyboard.press('Enter');
    await ada.heading('B1 is held for you');
    await ada.page.getByRole('button', { name: 'Give it back' }).press('Enter');
    await ada.sees('B1', 'free, 65.00\u{a0}€');
  });

  test('Enter in the name chooses no seat', TIMEOUT, async (t) => {
    const ada = await visitor(t, await office(t, '2m'), 'Ada');
    await ada.page.getByLabel('Your name').press('Enter');
    await ada.page.waitForURL('**/');
    await ada.sees('A1', 'free, 65.00\u{a0}€');
    assert.equal(await ada.page.getByLabel('Your name').inputValue(), 'Ada');
  });

  test('what somebody fills in stays while the hall changes', TIMEOUT, async (t) => {
    const hall = await office(t, '2m');
    const [ada, bob] = [await visitor(t, hall, 'Ada'), await visitor(t, hall, 'Bob')];
    await bob.page.getByLabel('Your name').fill('Bobby');
    await bob.seat('C3').focus();
    await ada.seat('C4').click();
    await bob.sees('C4', 'held for Ada');
    await ada.heading('C4 is held for you');
    await ada.page.getByLabel('With a slow bank').check();
    await bob.seat('C3').click();
    await bob.heading('C3 is held for you');
    await bob.press('Hold it longer');
    await ada.page.waitForFunction(() => document.querySelector('[value=slow]').checked);
    const other = await ada.page.context().newPage();
    await other.goto(hall.url);
    await other.locator('#seat-C3[aria-label="C3, held for Bobby"]').waitFor();
    await other.locator('#seat-C4[aria-label="C4, held for you"]').waitFor();
  });

  test('everything works without scripts', TIMEOUT, async (t) => {
    const ada = await visitor(t, await office(t, '2m'), 'Ada', { javaScriptEnabled: false });
    await ada.seat('F10').click();
    await ada.heading('F10 is held for you');
    await ada.press('Hold it longer');
    await ada.heading('F10 is held for you');
    await ada.press('Pay 45.00');
    await ada.heading('F10 is yours');
    await ada.page.getByRole('link', { name: 'To the hall' }).click();
    await ada.sees('F10', 'booked by you');
  });

  test('a page outlives the death of the server, and shows what it has kept', TIMEOUT, async (t) => {
    const hall = await office(t, '2m');
    const [ada, bob] = [await visitor(t, hall, 'Ada'), await visitor(t, hall, 'Bob')];
    await ada.seat('E5').click();
    await ada.press('Pay 45.00');
    await ada.heading('E5 is yours');
    await ada.page.goto(hall.url);
    await ada.seat('E6').click();
    await ada.heading('E6 is held for you');
    await bob.sees('E6', 'held for Ada');
    await hall.down();
    await bob.page.getByText('not connected').waitFor();
    await bob.picture('10-not-connected');
    await hall.up();
    await bob.page.getByText('not connected').waitFor({ state: 'hidden' });
    await bob.sees('E5', 'booked by Ada');
    await ada.press('Pay 45.00');
    await ada.heading('E6 is yours');
    await bob.sees('E6', 'booked by Ada');
  });

  test('it fits a telephone, in the dark', TIMEOUT, async (t) => {
    const dark = { colorScheme: 'dark', viewport: { width: 390, height: 800 } };
    const hall = await office(t, '2m');
    const ada = await visitor(t, hall, 'Ada', dark);
    const bob = await visitor(t, hall, 'Bartholomäus von und zu Hohenstein');
    await bob.seat('A4').click();
    await bob.heading('A4 is held for you');
    await bob.page.goto(hall.url);
    await bob.seat('C2').click();
    await bob.press('Pay 45.00');
    await ada.sees('C2', 'booked by Bartholomäus von und zu Hohenstein');
    await ada.seat('B3').click();
    await ada.heading('B3 is held for you');
    await ada.picture('11-dark-held');
    await ada.page.goto(hall.url);
    await ada.picture('12-dark-hall');
    await ada.seat('A4').click();
    await ada.picture('13-dark-taken');
    await bob.page.goto(hall.url);
    await bob.picture('14-hall-with-all');
    for (const { page } of [ada, bob]) {
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `the page is ${overflow} px too wide`);
    }
  });
});
