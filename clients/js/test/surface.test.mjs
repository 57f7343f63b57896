// The surface suite in every kind of realm of a browser. `SURFACE=native` runs it against the engine's own
// locks instead of the client, with the engine's known faults as expected failures: so the suite is shown to
// test the specification and not our implementation.

import { BROWSER_REALMS, openBrowserRealm } from './support/realms.mjs';
import { describeSurface } from './support/suite.mjs';

describeSurface('the surface of Web Locks in Chromium', BROWSER_REALMS, (realm, { browser, env }) =>
  openBrowserRealm(browser, realm, env),
);
