/**
 * Runs steps in order, each in a task of its own: between two steps there is a microtask checkpoint.
 *
 * In a browser every message event is a task, so a step runs at once, within it. Node may hand over several messages of one
 * packet in a single turn; there the second and later ones wait for a task each.
 */
export declare class TaskQueue {
    #private;
    /** Runs the step now if this turn has run none yet, else in a later task. Must be called from a task's top level. */
    run(step: () => void): void;
    /** Runs the step in a later task. */
    later(step: () => void): void;
    /** Forgets the steps that have not run. */
    clear(): void;
}
