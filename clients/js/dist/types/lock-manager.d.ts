import type { Agent } from './agent.js';
import { type AcquiredLock, type HeldLock } from './lock.js';
import { type LockTargets } from './request-all.js';
import type { HeldLockCallback, LockGrantedCallback, LockManagerSnapshot, LockOptions, RequestOptions, WaitingOptions } from './types.js';
/** Where a manager's calls go. */
export interface Source {
    /**
     * The checks of the environment: throws InvalidStateError or SecurityError where the specification has
     * them.
     */
    admit(): void;
    /** The agent, which exists whenever `admit` does not throw. */
    agent(): Agent;
}
/** Makes the object for `navigator.locks`. */
export declare const newLockManager: (source: Source) => LockManager;
/** Makes the object for `connect().locks`. */
export declare const newExtendedLockManager: (source: Source) => ExtendedLockManager;
/**
 * The Web Locks API of one bucket: makes requests for locks, and asks for the state of the lock manager.
 *
 * See https://w3c.github.io/web-locks/#api-lock-manager
 */
export declare class LockManager {
    #private;
    protected constructor(...internal: unknown[]);
    /**
     * Requests a lock and runs the callback while it is held. Resolves or rejects as the callback does, once
     * the lock is released; rejects with an AbortError if the lock is lost meanwhile. Every error, wrong
     * arguments included, is a rejection.
     */
    request<T>(name: string, callback: LockGrantedCallback<T>): Promise<Awaited<T>>;
    request<T>(name: string, options: LockOptions, callback: LockGrantedCallback<T>): Promise<Awaited<T>>;
    /**
     * Takes a snapshot of what is held and what waits in this bucket. It may be out of date by the time it is
     * seen.
     */
    query(): Promise<LockManagerSnapshot>;
}
/**
 * The lock manager with what lockhouse adds: further options, locks with a signal and a fencing token, and
 * two more methods.
 */
export declare class ExtendedLockManager extends LockManager {
    request: {
        <T>(name: string, callback: HeldLockCallback<T, HeldLock>): Promise<Awaited<T>>;
        <T>(name: string, options: WaitingOptions, callback: HeldLockCallback<T, HeldLock>): Promise<Awaited<T>>;
        <T>(name: string, options: RequestOptions, callback: HeldLockCallback<T>): Promise<Awaited<T>>;
    };
    /**
     * Requests a lock and resolves to it; it is held until `release()`, or the end of the scope with
     * `await using`. With `ifAvailable` it resolves to null if the lock is not to be had at once.
     */
    acquire(name: string, options?: WaitingOptions): Promise<AcquiredLock>;
    acquire(name: string, options: RequestOptions | undefined): Promise<AcquiredLock | null>;
    /**
     * Requests several locks in one strict order, that of their names by code units, and runs the callback
     * while all are held. A name given twice is taken once, in the stronger mode. With `ifAvailable` the
     * callback gets null unless all are to be had. If one is lost, the signals of all are aborted, and the
     * promise rejects with that loss; the others are held until the callback has ended. While another is waited
     * for, nothing is called back.
     */
    requestAll<T>(targets: LockTargets, callback: (locks: HeldLock[]) => T | PromiseLike<T>): Promise<Awaited<T>>;
    requestAll<T>(targets: LockTargets, options: WaitingOptions, callback: (locks: HeldLock[]) => T | PromiseLike<T>): Promise<Awaited<T>>;
    requestAll<T>(targets: LockTargets, options: RequestOptions, callback: (locks: HeldLock[] | null) => T | PromiseLike<T>): Promise<Awaited<T>>;
}
