// The page "try it" of the dashboard, as its user sees it.

import assert from 'node:assert/strict';

/** A tab of the page, what it says of itself, and what its console complains of. */
export async function openTry(context, { url }) {
  const page = await context.newPage();
  const problems = [];
  const sockets = [];
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
  page.on('websocket', (socket) => sockets.push(socket.url()));
  const response = await page.goto(`${url}/`);
  assert.equal(response.status(), 200);
  await page.locator('#connection', { hasText: 'open' }).waitFor();
  return {
    page,
    problems,
    response,
    /** The URLs of its WebSockets. */
    sockets,
    ask: (how) => page.getByRole('button', { name: how, exact: true }).click(),
    press: (what) => page.locator('#mine').getByRole('button', { name: what, exact: true }).click(),
    sees: (list, text) => page.locator(`#${list} li`, { hasText: text }).first().waitFor({ timeout: 5000 }),
    count: (list, count) =>
      page.locator(`#${list}-count`, { hasText: new RegExp(`^${count}$`) }).waitFor({ timeout: 5000 }),
  };
}
