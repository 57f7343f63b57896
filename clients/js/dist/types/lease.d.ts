/**
 * The client's own deadline: the instant at which it sent the latest answer that the server has confirmed, plus the lease less
 * 10 %, by whichever clock has advanced further. Before it the server grants our locks to nobody else.
 */
export declare class Lease {
    #private;
    /** Notes that a hello is sent now. */
    helloSent(): void;
    /** The welcome confirms the hello. */
    welcomed(leaseMs: number): void;
    /** Notes that the answer to ping `n` is sent now. */
    answerSent(n: number): void;
    /** The server has received the answer to ping `n`, and those before it. */
    answered(n: number): void;
    /** Milliseconds until the deadline; not positive once it has passed, and also when no lease has begun. */
    remainingMs(): number;
    /** The lease of the session that the latest hello has brought in place of this one's; it begins with its welcome. */
    successor(): Lease;
}
