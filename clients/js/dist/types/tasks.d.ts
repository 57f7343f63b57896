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
     * Handles the item now if this turn has handled none yet, else in a later task. Must be called from a
     * task's top level.
     */
    now(item: T): void;
    /** Handles the item in a later task. */
    later(item: T): void;
    /** Forgets the items that have not been handled, and returns them. */
    clear(): T[];
}
