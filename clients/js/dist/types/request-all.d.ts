import type { Agent } from './agent.js';
import { type ConvertedOptions } from './conversions.js';
import { type HeldLock } from './lock.js';
import type { LockMode } from './types.js';
/** One of several locks: its name, or its name and its own mode. */
export type LockTarget = string | {
    readonly name: string;
    readonly mode?: LockMode | undefined;
};
/** Several of them. A string is no such object. */
export type LockTargets = Iterable<LockTarget> & object;
export interface Target {
    readonly name: string;
    readonly mode: LockMode;
}
/** The conversion of the targets; a string would be an iterable of its letters, which no caller means. */
export declare function toTargets(value: unknown): Iterable<LockTarget>;
/** Copies the targets, each name once in its strongest mode, sorted by code units. */
export declare function convertTargets(targets: Iterable<LockTarget>, defaultMode: LockMode): Target[];
/**
 * Takes each lock inside the callback of the one before, and calls back with all of them while all are held.
 *
 * Once one is lost, the signals of all are aborted, and the promise rejects. If one was still waited for, its
 * request is withdrawn, and nothing is called back. Else the others are held until the callback has ended.
 */
export declare function requestInOrder(agent: Agent, targets: readonly Target[], options: ConvertedOptions, callback: (locks: HeldLock[] | null) => unknown): Promise<unknown>;
