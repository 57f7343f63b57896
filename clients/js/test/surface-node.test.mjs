// The surface suite in Node: in a process of its own and in a worker thread.

import { native } from './support/lab.mjs';
import { NODE_REALMS, openNodeRealm } from './support/realms.mjs';
import { describeSurface } from './support/suite.mjs';

if (!native) {
  describeSurface('the surface of Web Locks in Node', NODE_REALMS, (realm, { env }) => openNodeRealm(realm, env), {
    browser: false,
  });
}
