// The surface suite in Node: in a process of its own, in a worker thread, and over a link that delivers late
// and in batches.

import { cleanups } from './support/cleanup.mjs';
import { native } from './support/lab.mjs';
import { NODE_REALMS, openNodeRealm } from './support/realms.mjs';
import { startSlowLink } from './support/slow-link.mjs';
import { describeSurface } from './support/suite.mjs';

const SLOW = 'node over a slow link';
const TICK_MS = 4;

async function open(realm, { env, server }) {
  if (realm !== SLOW) return openNodeRealm(realm, env);
  const started = cleanups();
  const link = started.keep(await startSlowLink(server.port, TICK_MS), () => link.close());
  const opened = await openNodeRealm(realm, { ...env, url: link.url });
  started.keep(opened, opened.close);
  return { call: opened.call, close: started.end };
}

if (!native) describeSurface('the surface of Web Locks in Node', [...NODE_REALMS, SLOW], open, { browser: false });
