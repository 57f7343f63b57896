/**
 * Hands items to their handler in order, each in a task of its own: between two of them there is a microtask
 * checkpoint.
 *
 * In a browser every message event is a task, so an item is handled at once, within it. Node may hand over
 * several messages of one packet in a single turn; there the second and later ones wait for a task each.
 */
export declare class TaskQueue<T> {
    #private;
    constructor(handle: (item: T) => void);
    /**
     * Handles the items, the first one now if this turn has handled none yet, else in a later task, as the
     * others. All tasks are scheduled before that, so that what it schedules comes behind them. Must be called
     * from a task's top level.
     */
    now(items: readonly T[]): void;
    /** Handles the item in a later task. */
    later(item: T): void;
    /** Whether no item waits. */
    get isEmpty(): boolean;
    /** Forgets the items that have not been handled, and returns them. */
    clear(): T[];
}
