// Takes note of the secrets that servers send to this process, so that all logs can be searched for them
// (tests/traces). To be loaded before anything else: `node --import ./test/support/traces.mjs`.

import { appendFileSync } from 'node:fs';
import { Socket } from 'node:net';
import { join } from 'node:path';

const folder = process.env.TEST_TRACES;

const KINDS = {
  secret: 'secret of a session',
  ticket: 'ticket',
  ownerSecret: "owner's secret",
  token: 'token of a claim',
};

const SECRETS = /"(secret|ticket|ownerSecret|token)"\s*:\s*"([^"]+)"/g;

if (folder) {
  const push = Socket.prototype.push;
  // What a server sends is neither masked nor compressed.
  Socket.prototype.push = function (chunk, encoding) {
    if (chunk !== null) {
      const matches = chunk.toString('latin1').matchAll(SECRETS);
      const lines = [...matches].map(([, member, secret]) => `${KINDS[member]}\t${secret}\n`);
      if (lines.length > 0) appendFileSync(join(folder, 'secrets'), lines.join(''));
    }
    return push.call(this, chunk, encoding);
  };
}
