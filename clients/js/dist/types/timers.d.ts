/** setTimeout takes no longer time. */
export declare const LONGEST_TIMEOUT_MS: number;
/**
 * As setTimeout, but in Node this timer alone does not keep a process alive. What is longer than a timer may
 * be is cut off: the task has to look at the clock.
 */
export declare function setQuietTimeout(task: () => void, ms: number): ReturnType<typeof setTimeout>;
