/** As setTimeout, but in Node this timer alone does not keep a process alive. */
export declare function setQuietTimeout(task: () => void, ms: number): ReturnType<typeof setTimeout>;
