// Two servers as the nodes of a fleet, where tests meet the one that has no slot: all that they do goes on to
// the other one.

import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { until } from './cleanup.mjs';
import { startProcess } from './server.mjs';

/** The folder of the socket of a PostgreSQL, in which each fleet gets a database of its own. */
const POSTGRES = process.env.LOCKHOUSE_TEST_FLEETS_IN;

const CREATEDB = ['/usr/lib/postgresql/15/bin/createdb'].find((path) => existsSync(path)) ?? 'createdb';

/** A second, in which the owner takes its slot, and the gateway might take it if the owner were silent. */
const SLOT_LEASE_MS = 1000;

/** With a shorter lease the times of a fleet do not fit in. */
const LEAST_LEASE_S = 4;

let fleets = 0;

/**
 * Whether such a server may be a fleet: one that keeps a store of its own, or begins again at its former
 * port, is one machine's, and what is set by a file or by certificates is its own test.
 */
export function isForFleet({ port, lease, args }) {
  const seconds = lease === undefined ? LEAST_LEASE_S : /^(\d+)s$/.exec(lease)?.[1];
  const ownKinds = ['--store', '--config', '--tls', '--advertise', '--listen'];
  const isOwn = args.some((arg) => ownKinds.some((kind) => arg.startsWith(kind)));
  return POSTGRES !== undefined && port === 0 && !isOwn && Number(seconds) >= LEAST_LEASE_S;
}

/** Starts both nodes. The result is that of `startServer`, of the node without a slot. */
export async function startFleet({ lease, args }) {
  const folder = await mkdtemp(join(tmpdir(), 'lockhouse-fleet-'));
  const database = `fleet_${process.pid}_${fleets++}`;
  await promisify(execFile)(CREATEDB, ['-h', POSTGRES, '-U', 'postgres', database]);
  await writeFile(join(folder, 'secret'), 'a secret for nodes on one machine only');
  const [owner, gateway] = ['a', 'b'].sort((one, other) => Buffer.compare(weight(one), weight(other))).reverse();
  const start = (label) => {
    const nodeArgs = [
      ...['--listen', '127.0.0.1:0', '--node', label, '--slot-lease', `${SLOT_LEASE_MS}ms`],
      ...['--store', `postgres://postgres@${encodeURIComponent(POSTGRES)}/${database}`],
      ...['--cluster-secret-file', join(folder, 'secret')],
      ...(lease ? ['--lease', lease] : []),
      ...args,
    ];
    return startProcess(nodeArgs, { LOCKHOUSE_CLUSTER_SLOTS: '1' });
  };
  const started = [];
  const end = async (how) => {
    await Promise.all(started.map((node) => node[how]()));
    await rm(folder, { recursive: true, force: true });
  };
  try {
    started.push(await start(owner));
    await until(() => started[0].complaints().includes('slot taken'), 'the owner has its slot', 20_000);
    started.push(await start(gateway));
  } catch (error) {
    await end('kill');
    throw error;
  }
  return { ...started[1], kill: () => end('kill'), stop: () => end('stop') };
}

/** The weight of a node for slot 0: the slot goes to the one with the highest. */
function weight(label) {
  return createHash('sha256').update(Buffer.of(0, 0)).update(label).digest();
}
