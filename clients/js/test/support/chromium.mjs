// Debian's Chromium, driven by playwright-core. Playwright makes a temporary profile and removes it on close.

import { chromium } from 'playwright-core';

const ARGS = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

const options = ({ args = [], ignore = [] } = {}) => ({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  chromiumSandbox: false,
  args: [...ARGS, ...args],
  ignoreDefaultArgs: ignore,
});

/** Launches Chromium; `args` are added to the usual ones, `ignore` names defaults of Playwright to leave out. */
export const launchChromium = (wanted) => chromium.launch(options(wanted));

/** Launches a Chromium that can be killed like any process: `{ browser, kill }`. */
export async function launchMortalChromium() {
  const server = await chromium.launchServer(options());
  const browser = await chromium.connect(server.wsEndpoint());
  return { browser, kill: () => server.kill() };
}
