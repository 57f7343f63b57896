/// <reference lib="esnext.disposable" preserve="true" />
import { type LockLostError, type LossReason } from './errors.js';
import type { LockMode } from './types.js';
/** What is held, and how long at most, in milliseconds. */
interface Held {
    readonly name: string;
    readonly mode: LockMode;
    readonly maxHold: number | undefined;
}
/** The granted state of one request, shared by all Lock objects that stand for it. */
export declare class Hold {
    #private;
    readonly name: string;
    readonly mode: LockMode;
    /** What proves the grant to a later epoch of the server, if it may be proved. */
    ticket: string | undefined;
    /** Called with the error of the loss, once it is announced. */
    onloss: ((loss: LockLostError) => void) | undefined;
    constructor({ name, mode, maxHold }: Held, token: number, ticket: string | undefined, check: () => void);
    /** The error of the loss, once the lock is lost. */
    get loss(): LockLostError | undefined;
    /** Milliseconds that are left of its longest hold, if it has one; not positive once that is over. */
    leftMs(): number | undefined;
    get token(): number;
    get signal(): AbortSignal;
    /** Notes the loss, and returns its error. No listener is notified yet. */
    lose(reason: LossReason, why?: string): LockLostError;
    /** Aborts the signal, whose listeners run at once. */
    announceLoss(): void;
    /** Aborts the signal because of the loss of another lock; this one is held on. */
    abort(loss: LockLostError): void;
}
/** Makes the Lock of the specification. */
export declare const newLock: (hold: Hold) => Lock;
/** Makes the Lock that callbacks of the extended manager get. */
export declare const newHeldLock: (hold: Hold) => HeldLock;
/** Makes the Lock that `acquire` resolves to; `release` ends the hold, and the promise reports how it ended. */
export declare const newAcquiredLock: (hold: Hold, release: () => void, released: () => Promise<unknown>) => AcquiredLock;
/**
 * The extended view of a lock that was got through `navigator.locks`, whose own Lock objects have the
 * specification's members only.
 *
 * Throws a TypeError for anything that is not a Lock of this package.
 */
export declare let heldLock: (lock: Lock) => HeldLock;
/**
 * A lock, as the Web Locks specification has it: a name and a mode. It is held until the callback that it was
 * given to ends.
 *
 * See https://w3c.github.io/web-locks/#lock
 */
export declare class Lock {
    #private;
    protected constructor(...internal: unknown[]);
    get name(): string;
    get mode(): LockMode;
}
/** A lock with what lockhouse adds to it. */
export declare class HeldLock extends Lock {
    #private;
    protected constructor(...internal: unknown[]);
    /**
     * Aborts when the lock is lost; its reason is a {@link LockLostError}, whose `reason` says how. A release
     * does not abort it. Reading this property also looks at the clocks: after the thread was busy for long,
     * `lock.signal.aborted` says what no event could yet.
     */
    get signal(): AbortSignal;
    /**
     * An integer that strictly grows over the grants of the bucket, to be presented with every write to the
     * guarded resource, which refuses lower ones. Throws the {@link LockLostError} once the lock is lost.
     */
    get fencingToken(): number;
}
/** A lock that is held until it is released, or until the end of the scope in which `await using` declared it. */
export declare class AcquiredLock extends HeldLock {
    #private;
    /** As {@link AcquiredLock.release}. */
    [Symbol.asyncDispose]: () => Promise<void>;
    protected constructor(...internal: unknown[]);
    /**
     * Releases the lock. Resolves once the release is sent; rejects with the {@link LockLostError} if the lock
     * was lost before.
     */
    release(): Promise<void>;
}
/** The error with which a pending request ends when its client is closed. */
export declare function clientClosed(): DOMException;
export {};
