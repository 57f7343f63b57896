// Debian's Chromium, driven by playwright-core. Playwright makes a temporary profile and removes it on close.
//
// The usual one is the headless shell: the engine of the same version without the browser around it, which
// takes half of the processor time. Some tests are about that browser: they ask for the whole one.

import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';

const WHOLE = '/usr/bin/chromium';
const SHELL = '/usr/bin/chromium-headless-shell';

const ARGS = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

const options = ({ args = [], ignore = [], whole = false } = {}) => ({
  executablePath: process.env.CHROMIUM ?? (whole || !existsSync(SHELL) ? WHOLE : SHELL),
  chromiumSandbox: false,
  args: [...ARGS, ...args],
  ignoreDefaultArgs: ignore,
});

/**
 * Launches Chromium; `args` are added to the usual ones, `ignore` names defaults of Playwright to leave out,
 * and `whole` asks for more than the shell.
 */
export const launchChromium = (wanted) => chromium.launch(options(wanted));

/** Launches a Chromium that can be killed like any process: `{ browser, kill }`. */
export async function launchMortalChromium() {
  const server = await chromium.launchServer(options());
  const browser = await chromium.connect(server.wsEndpoint());
  return { browser, kill: () => server.kill() };
}
