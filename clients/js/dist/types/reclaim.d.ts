import type { LossReason } from './errors.js';
import type { Lease } from './lease.js';
/**
 * The locks whose reclaims are not answered yet, each held under the lease of the session in which it was
 * granted.
 */
export declare class Reclaims<L> {
    #private;
    /**
     * `expire` receives all locks whose deadline has passed, each with the reason of its loss; they are no
     * longer in here.
     */
    constructor(expire: (lost: ReadonlyMap<L, LossReason>) => void);
    /**
     * Adds locks of a session that is gone. Those that are in here already stay under the lease of an earlier
     * one.
     */
    add(locks: Iterable<L>, former: Lease): void;
    has(lock: L): boolean;
    /** The reclaim of this lock is answered, or the lock is over. */
    delete(lock: L): void;
    /** Expires the locks whose deadline has passed. */
    check(): void;
}
