// A server with everything that a dashboard can show: 10^5 locks, queues, owners, claims, assignments,
// cycles, and names that do harm where they are not shown with care.

import WebSocket from 'ws';
import { connect } from '../../../clients/js/dist/lockhouse.js';

/** Names that are shown wrongly with ease. */
export const ODD = {
  empty: '',
  script: "<script>document.title = 'harm'</script>",
  surrogate: 'lone \ud800 surrogate',
  rightToLeft: 'عقد/٤٢',
  override: 'invoice \u202egpj.exe',
  long: `report/${'very-'.repeat(600)}long`,
  lines: 'two\nlines\u0000',
};

export const LABEL_OF_ANNA = 'Anna, customer care';

/** What a node of a fleet answers to `/v1/cluster`, with a node in each condition. */
export const FLEET = {
  node: 'node-1',
  moving: 1,
  nodes: [
    { node: 'node-1', address: 'http://10.0.0.1:7420', owns: 6, version: '0.1.0', phase: 'member', slots: {} },
    { node: 'node-2', address: 'http://10.0.0.2:7420', owns: 5, version: '0.1.0', phase: 'leaving', slots: {} },
    {
      ...{ node: 'node-3', address: 'http://10.0.0.3:7420', owns: 3, version: '0.1.0', phase: 'member', slots: {} },
      ...{ notReady: 'the database does not answer', unconfirmedMs: 4200 },
    },
    { node: 'node-4\u202e', address: 'http://10.0.0.4:7420', owns: 1, unreachable: 'it does not answer in 1 s' },
  ],
  slots: Array.from({ length: 16 }, (_, slot) => ({
    slot,
    node: [...'1111112222233344'].map((digit) => (digit === '4' ? 'node-4\u202e' : `node-${digit}`)).at(slot),
    epoch: 3 + slot,
    state: { 0: 'opening', 5: 'recovering', 8: 'unservable', 9: 'unservable', 14: 'unknown' }[slot] ?? 'serving',
  })).map((it) => (it.slot === 15 ? { ...it, node: null, state: 'free' } : it)),
};

/** So many locks there are besides. */
const RECORDS_OF_IMPORTER = 19_980;
const HELD_ALONE = 80_040;

const CONCURRENT_CALLS = 8;
const LOCKS_OF_A_CALL = 60;

/** Fills a server; `bulk` says whether the many locks come, too. The result ends the clients. */
export async function fill(url, { bulk = true } = {}) {
  const clients = [];
  const client = (clientId) => {
    const made = connect(url, { clientId, WebSocket });
    clients.push(made);
    return made;
  };
  if (bulk) await fillMany(client('loader'));
  await fillQueues(client);
  await fillCycles(client);
  await fillAlike(client);
  await fillOwners(client('office'), bulk);
  await fillClaims(client('box office').claims);
  const odd = client('oddities');
  for (const name of Object.values(ODD)) await hold(odd, name);
  await fillHistory(client);
  return { client, close: () => clients.forEach((it) => void it.close()) };
}

/** Holds a lock until the client ends, or until the function that this resolves with is called. */
export async function hold(client, name, options = {}) {
  let release;
  await new Promise((held, failed) => {
    client.locks
      .request(name, options, () => {
        held();
        return new Promise((resolve) => {
          release = resolve;
        });
      })
      .catch(failed);
  });
  return release;
}

/** Asks for a lock, and leaves the request in the queue. */
function wait(client, name, options = {}) {
  client.locks.request(name, options, () => new Promise(() => {})).catch(() => {});
}

/** Waits until a client's earlier requests are queued: what comes later on a connection is granted later. */
async function turn(client) {
  await client.locks.request('turn', () => {});
}

async function fillMany(loader) {
  const all = [];
  for (let number = 0; number < HELD_ALONE; number++) {
    all.push(hold(loader, `part/${String(number).padStart(6, '0')}`));
  }
  await Promise.all(all);
}

async function fillQueues(client) {
  await hold(client('reporter'), 'report', { metadata: 'nightly run' });
  // The first request is the oldest, so that it is among the first rows of a list by age.
  const first = client('worker-01');
  wait(first, 'report');
  await turn(first);
  for (let number = 2; number <= 30; number++) wait(client(`worker-${String(number).padStart(2, '0')}`), 'report');
  for (const who of ['reader-1', 'reader-2', 'reader-3']) await hold(client(who), 'catalogue', { mode: 'shared' });
  const writer = client('writer');
  wait(writer, 'catalogue');
  // The fourth reader has to wait behind the writer.
  await turn(writer);
  wait(client('reader-4'), 'catalogue', { mode: 'shared' });
}

/** Programs that share a client id, and one that waits for what it holds itself: no cycles. */
async function fillAlike(client) {
  const [first, ...others] = Array.from({ length: 4 }, () => client('pod'));
  await hold(first, 'alike');
  for (const other of others) wait(other, 'alike');
  const own = client('own');
  await hold(own, 'own/1');
  wait(own, 'own/1');
}

/** Two that wait for each other, and three in a ring. */
async function fillCycles(client) {
  for (const [prefix, size] of [
    ['transfer', 2],
    ['stage', 3],
  ]) {
    const parties = Array.from({ length: size }, (_, index) => client(`${prefix}-${index + 1}`));
    for (const [index, party] of parties.entries()) await hold(party, `${prefix}/${index + 1}`);
    for (const [index, party] of parties.entries()) wait(party, `${prefix}/${((index + 1) % size) + 1}`);
  }
}

async function fillOwners(office, bulk) {
  const anna = await office.offline.open({ label: LABEL_OF_ANNA, ttlMs: 1_200_000, metadata: 'desk 4' });
  await anna.lock([
    { kind: 'customer', id: '42', intent: 'write' },
    { kind: 'price', id: '7', intent: 'read' },
  ]);
  const bob = await office.offline.open({ label: 'Bob', ttlMs: 600_000, maxMs: 3_600_000 });
  await bob.lock([{ kind: 'customer', id: '43', intent: 'write' }]);
  if (!bulk) return;
  const importer = await office.offline.open({ label: 'Importer', ttlMs: 1_200_000 });
  const numbers = Array.from({ length: RECORDS_OF_IMPORTER / LOCKS_OF_A_CALL }, (_, index) => index * LOCKS_OF_A_CALL);
  const work = async () => {
    for (let from = numbers.pop(); from !== undefined; from = numbers.pop()) {
      const ids = Array.from({ length: LOCKS_OF_A_CALL }, (_, index) => String(from + index));
      await importer.lock(ids.map((id) => ({ kind: 'record', id, intent: 'write' })));
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_CALLS }, work));
}

async function fillClaims(claims) {
  for (let row = 1; row <= 12; row++) {
    await claims.claim(`seat/${row}a`, { claimant: `guest ${row}`, ttlMs: row * 300_000 });
    const sold = await claims.claim(`seat/${row}b`, { claimant: `guest ${row}`, ttlMs: 60_000 });
    await sold.finalize();
  }
}

/** What has ended in each of the usual ways. */
async function fillHistory(client) {
  const past = client('past');
  for (let turn = 0; turn < 6; turn++) (await hold(past, 'report/daily'))();
  await hold(past, 'report/daily').catch(() => {});
  await hold(client('thief'), 'report/daily', { steal: true });
  const released = await past.claims.claim('seat/99', { claimant: 'guest 99', ttlMs: 60_000 });
  await released.release();
  await past.claims.claim('seat/99', { claimant: 'guest 98', ttlMs: 1 });
  await past.locks.request('report', { ifAvailable: true }, () => {});
  const carol = await past.offline.open({ label: 'Carol' });
  await carol.lock([{ kind: 'customer', id: '44', intent: 'write' }]);
  await carol.end();
}
