import type { Agent } from './agent.js';
import type { Caller } from './caller.js';
import { Claims } from './claims.js';
import { type BucketEvent, type EventsOptions } from './events.js';
import { type ExtendedLockManager, type Source } from './lock-manager.js';
import { Offline } from './offline.js';
/**
 * The locks of one bucket of a server. In each of the three ways a name is the same resource, unless the
 * client has a partition.
 */
export interface Bucket {
    readonly name: string;
    /** Web Locks: held while a task runs. */
    readonly locks: ExtendedLockManager;
    /** Offline locks: held by a business transaction over many requests. They know no partitions. */
    readonly offline: Offline;
    /** Claims: reservations for a time. They know no partitions. */
    readonly claims: Claims;
    /**
     * What happens in the bucket from now on, or from an event on: grants, waits, ends and refusals of all
     * three kinds. It connects again by itself and goes on where it was; a `gap`, and then the `state`, comes
     * where events are missing. Each iteration has a connection of its own.
     *
     * Throws a TypeError for an option that cannot be used. The iteration throws the ProblemError of a server
     * that refuses it, and the reason of the signal.
     */
    events(options?: EventsOptions): AsyncIterableIterator<BucketEvent>;
    /**
     * Ends the use of this bucket: locks are released, and everything pending rejects with an AbortError, as
     * does every later call with an InvalidStateError.
     */
    close(): void;
}
/** How the buckets of a client get what they are made of. */
export interface BucketHost {
    /** The checks that come first in every call; throws what keeps it from being made. */
    admit(): void;
    /** Connects to the bucket of this name; the agent tells when it begins and ceases to have anything open. */
    connect(bucket: string, onbusy: (isBusy: boolean) => void): Agent;
    caller(bucket: string, admit: () => void, closed: AbortSignal): Caller;
    /** The bucket of this name has been closed. */
    forget(bucket: string): void;
}
/** For how long a connection is kept in which nothing is held and nothing is pending. */
export declare const IDLE_MS = 30000;
/** One bucket of a client, with a connection while there is something to do. */
export declare class ConnectedBucket implements Bucket {
    #private;
    readonly name: string;
    readonly source: Source;
    readonly locks: ExtendedLockManager;
    readonly offline: Offline;
    readonly claims: Claims;
    /** A bucket that is connected for good has the `idleMs` Infinity. */
    constructor(name: string, host: BucketHost, idleMs: number);
    events(options?: EventsOptions): AsyncIterableIterator<BucketEvent>;
    /** The agent, which is connected if there is none. */
    agent(): Agent;
    /** The agent if there is one. */
    get connected(): Agent | undefined;
    close(): void;
}
