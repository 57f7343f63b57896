// Compiles, and fails to where a line says so: what scripts in TypeScript may write.

import {
  type AcquiredLock,
  type Assignment,
  type Claim,
  type Client,
  connect,
  type HeldLock,
  InvalidError,
  install,
  LockedError,
  type Owner,
  RecoveringError,
  type RequestOptions,
} from 'lockhouse';

const { locks } = connect('https://locks.example/?bucket=orders');
declare const options: RequestOptions;
declare const urls: readonly string[];
connect(urls);
connect(['https://a.example/', new URL('https://b.example/')]);
// @ts-expect-error: a list of URLs, and not of anything else.
connect([7420]);

export const answers: Promise<string>[] = [
  locks.request('a', (lock) => lock.name),
  locks.request('a', async (lock) => `${lock.name} ${lock.fencingToken}`),
  locks.request('a', { mode: 'shared', timeout: 1_000 }, (lock) => lock.name),
  locks.request('a', { ifAvailable: false }, (lock) => lock.name),
  locks.request('a', { ifAvailable: true }, (lock) => lock?.name ?? 'taken'),
  locks.request('a', options, (lock) => lock?.name ?? 'taken'),
  // @ts-expect-error: null where the lock is not available.
  locks.request('a', { ifAvailable: true }, (lock) => lock.name),
  // @ts-expect-error: these options may say ifAvailable.
  locks.request('a', options, (lock) => lock.name),
  // A callback that takes null as well suits every request.
  locks.request('a', (lock: HeldLock | null) => lock?.name ?? 'taken'),
];

export const counts: Promise<number>[] = [
  locks.requestAll(['a', { name: 'b', mode: 'shared' }], (held) => held.length),
  locks.requestAll(['a'], { timeout: 1_000 }, (held) => held.length),
  locks.requestAll(['a'], { ifAvailable: true }, (held) => held?.length ?? 0),
  // @ts-expect-error: null where the locks are not available.
  locks.requestAll(['a'], { ifAvailable: true }, (held) => held.length),
];

export const waited: Promise<AcquiredLock> = locks.acquire('a', { timeout: 1_000 });
export const tried: Promise<AcquiredLock | null> = locks.acquire('a', { ifAvailable: true });
// @ts-expect-error: null where the lock is not available.
export const certain: Promise<AcquiredLock> = locks.acquire('a', options);

/** To the end of the scope. */
export async function scoped(): Promise<void> {
  await using lock = await locks.acquire('a');
  lock.signal.throwIfAborted();
}

/** What is written for the platform's manager takes this one. */
export const platform: globalThis.LockManager = locks;
export const installed: globalThis.LockManager = install('https://locks.example/').locks;

const { offline, claims } = connect('https://locks.example/', { fetch: globalThis.fetch });

/** A business transaction, from its beginning to its end. */
export async function edit(id: string, signal: AbortSignal): Promise<number | null> {
  const owner = await offline.open({ label: 'Anna', ttlMs: 60_000, metadata: 'desk 4', signal, timeout: 5_000 });
  try {
    const [grant] = await owner.lock([{ kind: 'customer', id, intent: 'write' }], { metadata: 'edits', signal });
    owner.signal.throwIfAborted();
    // @ts-expect-error: an intent is read or write.
    await owner.lock([{ kind: 'customer', id, intent: 'delete' }]);
    // @ts-expect-error: a grant may have no token, where readers need no lock.
    const token: number | undefined = grant?.fencingToken;
    return token ?? null;
  } catch (error) {
    if (error instanceof LockedError) {
      const who: string[] = error.holders.map(({ label, since }) => `${label} since ${since.toISOString()}`);
      const what: string[] = error.conflicts.map(({ kind, id: record }) => `${kind} ${record}`);
      throw new Error(`${what}: ${who}`);
    }
    if (error instanceof RecoveringError) return error.retryAfterMs ?? 1_000;
    if (error instanceof InvalidError) console.log(error.field, error.value, error.rule);
    throw error;
  } finally {
    const released: number = await owner.unlockAll({ sparing: [{ kind: 'customer', id }] });
    await owner.end({ timeout: released });
  }
}

// @ts-expect-error: an owner has a label.
export const nameless: Promise<Owner> = offline.open({});
export const resumed: Promise<Owner> = offline.resume('17', 'secret', { heartbeats: false });
// @ts-expect-error: owners are opened, not made.
export const made = new Owner();

/** Reserve, prepare, finalize. */
export async function book(seat: string): Promise<Assignment | null> {
  const claim: Claim = await claims.claim(seat, { claimant: 'Anna', ttlMs: 60_000 });
  await claim.renew();
  // @ts-expect-error: a claim's token is not to be changed.
  claim.token = 'another';
  const { fencingToken, assignedAt }: Assignment = await claim.finalize({ timeout: 5_000 });
  console.log(fencingToken, assignedAt.getTime(), claim.expiresAt.getTime());
  await claims.unassign(seat, { fencingToken });
  return claims.assignment(seat);
}

/** Comes when no client has the name. */
export async function free(name: string, signal: AbortSignal): Promise<Date | undefined> {
  const client: Client = connect('https://locks.example/');
  for await (const event of client.events({ name, kind: 'offline', state: true, signal })) {
    if (event.type === 'state' && event.entries.every(({ state }) => state !== 'held')) return undefined;
    if (event.type === 'ended') return event.at;
  }
  // @ts-expect-error: there is no such discipline.
  client.events({ kind: 'lock' });
  return undefined;
}

/** Who edits what. */
export async function editors(): Promise<string[]> {
  const labels: string[] = [];
  for await (const { kind, id, label } of offline.locks({ kind: 'customer' })) labels.push(`${kind}/${id}: ${label}`);
  return labels;
}
