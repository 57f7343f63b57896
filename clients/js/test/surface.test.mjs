// Runs the surface suite in every kind of realm. `SURFACE=native` runs it against the engine's own locks instead of the client,
// with the engine's known faults as expected failures: so the suite is shown to test the specification and not our implementation.
// `REALMS=window,iframe` limits the realms, `ONLY=text` the tests.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { launchChromium } from './support/chromium.mjs';
import { cleanups } from './support/cleanup.mjs';
import { startPages } from './support/pages.mjs';
import { BROWSER_REALMS, NODE_REALMS, openBrowserRealm, openNodeRealm } from './support/realms.mjs';
import { startServer } from './support/server.mjs';
import { nativeFaults } from './surface/native-faults.mjs';

const mode = process.env.SURFACE === 'native' ? 'native' : 'lockhouse';
const realms =
  process.env.REALMS?.split(',') ?? (mode === 'native' ? BROWSER_REALMS : [...BROWSER_REALMS, ...NODE_REALMS]);
const only = process.env.ONLY ?? '';

describe('the surface of Web Locks', () => {
  const started = cleanups();
  const env = { mode };

  before(async () => {
    const pages = await startPages();
    started.keep(pages, () => pages.close());
    env.origin = pages.origin;
    if (mode === 'lockhouse') {
      const server = await startServer();
      started.keep(server, () => server.kill());
      env.url = server.url;
    }
    if (realms.some((realm) => BROWSER_REALMS.includes(realm))) {
      env.browser = await launchChromium();
      started.keep(env.browser, () => env.browser.close());
    }
  });
  after(() => started.end());

  for (const realm of realms) {
    test(`realm: ${realm}`, async (t) => {
      const { call, close } = await (NODE_REALMS.includes(realm)
        ? openNodeRealm(realm, env)
        : openBrowserRealm(env.browser, realm, env));
      t.after(close);
      const titles = (await call({ call: 'titles' })).filter((title) => title.includes(only));
      assert.ok(titles.length > 0, 'the suite has tests');
      for (const title of titles) {
        await t.test(`${realm}: ${title}`, async () => judge(title, await call({ call: 'run', title })));
      }
    });
  }
});

function judge(title, errors) {
  const known = mode === 'native' ? nativeFaults[title] : undefined;
  if (!known) assert.equal(errors.length, 0, errors.join('\n'));
  else if (!known.sometimes)
    assert.notEqual(
      errors.length,
      0,
      `the engine is expected to fail here (${known.fault}), but it passed: take it off the list`,
    );
}
