// auth-js in a page: sections under its lock, and what comes of those that do not get it or lose it.

import { NavigatorLockAcquireTimeoutError, navigatorLock } from '@supabase/auth-js';

let release;
let ended;

const shown = (error) => ({
  message: error.message,
  isTimeout: error instanceof NavigatorLockAcquireTimeoutError && error.isAcquireTimeout,
});

/** Begins a section that lasts until `leave`. */
export const stay = (name, timeoutMs) =>
  new Promise((resolve) => {
    const section = () => {
      resolve();
      return new Promise((end) => {
        release = end;
      });
    };
    ended = navigatorLock(name, timeoutMs, section).then(() => 'left', shown);
  });

/** Ends the section, and tells how it ended. */
export function leave() {
  release();
  return ended;
}

/** How the section ends that lasts. */
export const end = () => ended;

/** One short section; gives what came of it and how long that took. */
export async function visit(name, timeoutMs) {
  const start = performance.now();
  const result = await navigatorLock(name, timeoutMs, async () => 'visited').catch(shown);
  return { result, elapsedMs: performance.now() - start };
}

/** Short sections, one after the other, each of which calls `section`. */
export async function visits(name, timeoutMs, times, section) {
  for (let each = 0; each < times; each++) await navigatorLock(name, timeoutMs, section);
}
