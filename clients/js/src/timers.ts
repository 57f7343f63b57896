/** As setTimeout, but in Node this timer alone does not keep a process alive. */
export function setQuietTimeout(task: () => void, ms: number): ReturnType<typeof setTimeout> {
  const timer = setTimeout(task, ms);
  if (typeof timer === 'object') (timer as { unref?(): void }).unref?.();
  return timer;
}
