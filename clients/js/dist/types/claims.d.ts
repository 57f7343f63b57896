import { type CallOptions } from './caller.js';
/** What a new claim is like. */
export interface ClaimOptions extends CallOptions {
    /** The claimant, as others see it when they are refused. At most 256 bytes of UTF-8. */
    claimant: string;
    /** Milliseconds after which the claim ends unless it is renewed. Default: that of the server, 60 s. */
    ttlMs?: number | undefined;
    /** A text that others see beside the claimant. */
    metadata?: string | undefined;
}
/** A claim that was made final. */
export interface Assignment {
    readonly resource: string;
    readonly claimant: string;
    readonly assignedAt: Date;
    /** That of the claim. */
    readonly fencingToken: number;
}
/** Reservations for a time, to be made final by a claimant that still has them: reserve, prepare, finalize. */
export declare class Claims {
    #private;
    /**
     * Claims a resource, which is a name of the bucket. Nothing waits.
     *
     * Rejects with a ClaimedError, BusyError or AlreadyAssignedError if the resource is not to be had, and with
     * RecoveringError or UnavailableError if the timeout did not suffice, or an OutcomeUnknownError where it
     * may have happened. A claim whose answer is lost with the call ends by its TTL.
     */
    claim(resource: string, options: ClaimOptions): Promise<Claim>;
    /**
     * Lets the TTL of a claim run anew. Resolves to when the claim ends now. Rejects with ClaimLostError or
     * ClaimExpiredError.
     */
    renew(resource: string, token: string, options?: CallOptions): Promise<Date>;
    /**
     * Gives a claim up, so that the resource is free at once. Rejects with ClaimLostError or ClaimExpiredError
     * if it had ended before.
     */
    release(resource: string, token: string, options?: CallOptions): Promise<void>;
    /**
     * Makes a claim final: only if it still stands, and in one step. Doing it again gives the same answer until
     * the resource is unassigned.
     *
     * Rejects with a ClaimLostError if another claim stands, or a ClaimExpiredError if none does; then nothing
     * has changed. After an answer that was lost the claim may also have been made final, and the assignment
     * been taken back since.
     */
    finalize(resource: string, token: string, options?: CallOptions): Promise<Assignment>;
    /**
     * The assignment of a resource; null if there is none. A name with a lone surrogate cannot be asked for: a
     * TypeError.
     */
    assignment(resource: string, options?: CallOptions): Promise<Assignment | null>;
    /**
     * Takes an assignment back, so that the resource can be claimed again; with a token only that one. Without
     * effect if there is none.
     *
     * Without a token it is not tried again once it may have been done: it rejects with an OutcomeUnknownError,
     * as the next attempt could take back the assignment of another claimant.
     */
    unassign(resource: string, options?: CallOptions & {
        fencingToken?: number | undefined;
    }): Promise<void>;
}
/**
 * A claim as it was when it was made or last renewed. Having it proves nothing later: only {@link finalize}
 * shows whether it still stands, by asking the server.
 */
export declare class Claim {
    #private;
    get resource(): string;
    get claimant(): string;
    /** What proves the claim, and alone gives the right to finalize it: keep it from logs and from other users. */
    get token(): string;
    /** An integer that grows over the grants of the bucket. */
    get fencingToken(): number;
    /** When the claim ends unless it is renewed, by the server's clock. */
    get expiresAt(): Date;
    /** As {@link Claims.renew}. */
    renew(options?: CallOptions): Promise<void>;
    /** As {@link Claims.release}. */
    release(options?: CallOptions): Promise<void>;
    /** As {@link Claims.finalize}. */
    finalize(options?: CallOptions): Promise<Assignment>;
}
