/**
 * An instant on both clocks: the monotonic one may stand still while a machine sleeps, the wall clock may be
 * set back.
 */
export interface Mark {
    readonly monotonicMs: number;
    readonly wallMs: number;
}
/** How much of a lease its holder counts on. */
export declare const SAFETY = 0.9;
/**
 * The client's own deadline: the instant at which it sent the latest answer that the server has confirmed,
 * plus the lease less 10 %, by whichever clock has advanced further, but no later than the credential's end,
 * with which the server ends the session. Before it the server grants our locks to no other client.
 */
export declare class Lease {
    #private;
    /** Notes that a hello is sent now. */
    helloSent(): void;
    /** The welcome confirms the hello, and gives the time that the credential is still good, if it has an end. */
    welcomed(leaseMs: number, credentialMs?: number): void;
    /** Notes that the answer to ping `n` is sent now. */
    answerSent(n: number): void;
    /** The server has received the answer to ping `n`, and those before it. */
    answered(n: number): void;
    /** Milliseconds until the deadline; not positive once it has passed, and also when no lease has begun. */
    remainingMs(): number;
    /**
     * What the deadline, once it has passed, takes the locks for: it is that of the lease, or the credential's
     * end.
     */
    loss(): 'expired' | 'denied';
    /**
     * The lease of the session that the latest hello has brought in place of this one's; it begins with its
     * welcome.
     */
    successor(): Lease;
}
/** This instant. */
export declare function now(): Mark;
/** How long ago that was, by whichever clock has advanced further. */
export declare function elapsedMs(since: Mark): number;
