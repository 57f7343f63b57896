/** setTimeout takes no longer time. */
export const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * As setTimeout, but in Node this timer alone does not keep a process alive. What is longer than a timer may
 * be is cut off: the task has to look at the clock.
 */
export function setQuietTimeout(task: () => void, ms: number): ReturnType<typeof setTimeout> {
  const timer = setTimeout(task, Math.min(ms, LONGEST_TIMEOUT_MS));
  if (typeof timer === 'object') (timer as { unref?(): void }).unref?.();
  return timer;
}
