import { type CallOptions } from './caller.js';
import { type Mark } from './lease.js';
import { type RecordGrant, type RecordKey, type RecordLock, type RecordTarget, type ReleaseTarget } from './records.js';
/** The facts of an owner that the server has reported. */
export interface OwnerFacts {
    readonly id: string;
    readonly secret: string;
    readonly label: string;
    readonly ttlMs: number;
    readonly expiresAt: Date;
    /** When it ends however often it is renewed, by the server's clock. */
    readonly endsAt: Date | undefined;
    /** After how many milliseconds it ends however often it is renewed. */
    readonly longestMs: number;
    /** From when on these lengths count at the latest. */
    readonly countsFrom: Mark;
}
/** What a release depends on. */
export interface ReleaseOptions extends CallOptions {
    /** Nothing is released unless the owner holds all of these: those under which a step has worked. */
    holding?: readonly ReleaseTarget[] | undefined;
}
/**
 * Who holds offline locks: a user's session, or one business transaction. It lives on the server until
 * {@link end}, or until nothing is heard of it for its TTL; every successful call of it counts, readings
 * included, and so do the heartbeats that it sends by itself while this object's client is open.
 *
 * Heartbeats alone guard nothing, since a page may be frozen and a network fail: {@link signal} aborts by the
 * owner's own deadline, which each call checks too, and the fencing token of a lock lets the record itself
 * refuse what comes too late.
 */
export declare class Owner {
    #private;
    get id(): string;
    /**
     * What every call of this owner proves itself by. Who has it can release the owner's locks: keep it from
     * logs and from other users.
     */
    get secret(): string;
    get label(): string;
    get ttlMs(): number;
    /** When the owner ends unless it is renewed, by the server's clock. */
    get expiresAt(): Date;
    /**
     * Aborts when the locks can no longer be relied on: with an UnknownOwnerError if the server says so or the
     * owner's own deadline, its TTL less 10 %, has passed, or with the AbortError of a closed client.
     * {@link end} does not abort it.
     */
    get signal(): AbortSignal;
    /**
     * Locks all of these records, at most 60, or none. What the owner holds already stays as it is; its own
     * read lock becomes a write lock if it is the only reader. Nothing waits.
     *
     * Rejects with a LockedError if others hold one of them, and if the timeout did not suffice with a
     * RecoveringError or UnavailableError, or an OutcomeUnknownError where it may have happened.
     */
    lock(targets: readonly RecordTarget[], options?: CallOptions & {
        metadata?: string | undefined;
    }): Promise<RecordGrant[]>;
    /**
     * Releases these locks, at most 1000; what is not held, or not by this grant, is passed over. Resolves to
     * how many were released.
     *
     * If an answer is lost, the call is made again if all of these have tokens, and what is gone by then counts
     * as released. Without them it rejects with an OutcomeUnknownError, as the next attempt could release what
     * another step of the owner has locked again. Rejects with a LocksLostError if the owner does not hold all
     * that is in `holding`.
     */
    unlock(targets: readonly (ReleaseTarget | RecordGrant)[], options?: ReleaseOptions): Promise<number>;
    /**
     * Releases all locks of the owner but those that are spared. Resolves to how many were released. Rejects as
     * {@link unlock} does for locks without tokens.
     */
    unlockAll(options?: ReleaseOptions & {
        sparing?: readonly RecordKey[] | undefined;
    }): Promise<number>;
    /** The locks that the owner holds now. */
    locks(options?: CallOptions): Promise<RecordLock[]>;
    /**
     * Notifies the server now that this owner lives on. Heartbeats do so by themselves unless they were
     * declined.
     */
    heartbeat(options?: CallOptions): Promise<void>;
    /**
     * Ends the owner and releases all its locks. Resolves also if it has ended already. Nothing more can be
     * done with this object, even if the call fails; then the server ends the owner by its TTL. An option that
     * is refused, or a signal that is aborted already, ends nothing.
     */
    end(options?: CallOptions): Promise<void>;
}
