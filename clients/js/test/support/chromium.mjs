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

/** Launches Chromium; `args` are added to the usual ones, `ignore` names defaults of Playwright to leave out. */
export function launchChromium({ args = [], ignore = [] } = {}) {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    chromiumSandbox: false,
    args: [...ARGS, ...args],
    ignoreDefaultArgs: ignore,
  });
}
