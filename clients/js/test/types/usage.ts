// Compiles, and fails to where a line says so: what scripts in TypeScript may write.

import { type AcquiredLock, connect, type HeldLock, install, type RequestOptions } from 'lockhouse';

const { locks } = connect('https://locks.example/?bucket=orders');
declare const options: RequestOptions;

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
