// A visit to the dashboard with a real browser: what it complains of, what it loads, and pictures of it.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** The ways in which each page is looked at. */
export const LOOKS = {
  light: { colorScheme: 'light', viewport: { width: 1440, height: 900 } },
  dark: { colorScheme: 'dark', viewport: { width: 1440, height: 900 } },
  phone: { colorScheme: 'light', viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true },
};

/** Where pictures go, if they are wanted. */
const PICTURES = process.env.SCREENSHOTS;

/** A page of the dashboard in a context of its own, which is closed when the test ends. */
export async function visit(t, browser, url, look = 'light') {
  const context = await browser.newContext({ ...LOOKS[look], reducedMotion: 'reduce' });
  t.after(() => context.close());
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => {
    // Chromium writes a line for each answer that is no success; those are looked at where they are wanted.
    if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) complaints.push(message.text());
  });
  const underWay = new Set();
  for (const end of ['requestfinished', 'requestfailed']) page.on(end, (request) => underWay.delete(request));
  page.on('request', (request) => {
    underWay.add(request);
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) complaints.push(`asked ${request.url()}`);
  });
  t.after(() => assert.deepEqual(complaints, []));
  return Object.assign(page, {
    /** The requests without a whole answer. */
    underWay,
    open: async (path) => {
      await page.goto(`${url}/dashboard/${path}`);
      await page.locator('main h1').waitFor();
    },
    /** Waits for a text in the main part of the page. */
    sees: (text) => page.locator('main').getByText(text).filter({ visible: true }).first().waitFor(),
    rows: page.locator('.rows [role=row]'),
  });
}

/** Keeps a picture of the whole page. */
export async function picture(page, name) {
  if (!PICTURES) return;
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true });
}

/** What axe finds serious or critical. */
export async function violations(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ['violations'] }));
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => `${id} at ${target}: ${failureSummary}`));
}
