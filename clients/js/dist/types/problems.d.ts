/** Who holds a name. */
export interface Holder {
    /** By a Web Lock, an offline lock or a claim. */
    readonly kind: 'web' | 'offline' | 'claim';
    /** The client id, the owner's label or the claimant. */
    readonly label: string;
    /** The id of the owner of an offline lock. */
    readonly owner?: string;
    readonly mode: 'exclusive' | 'shared';
    readonly since: Date;
    /** When the hold ends unless it is renewed. */
    readonly expiresAt?: Date;
    readonly metadata?: string;
}
/** A record that could not be locked, and who stands in the way. */
export interface Conflict {
    readonly kind: string;
    readonly id: string;
    /** The first of those who hold it. */
    readonly holders: Holder[];
    /** How many requests wait for it. */
    readonly queued: number;
}
/** What a problem says, as it came (RFC 9457). */
export type ProblemBody = Readonly<Record<string, unknown>>;
/** A call was answered with a problem, or not at all. */
export declare class ProblemError extends Error {
    /** What went wrong, for programs: `locked`, `claim_lost`, … */
    readonly code: string;
    /** The HTTP status; 0 if no server has answered. */
    readonly status: number;
    constructor(code: string, status: number, message: string, options?: ErrorOptions);
}
/** The server cannot be reached. The call has had no effect. */
export declare class UnreachableError extends ProblemError {
}
/**
 * Whether the call has had an effect is unknown: its answer was lost, or the server lost its store before it
 * knew. The call was tried again for its timeout if that does no harm. What the server holds says what has
 * happened.
 */
export declare class OutcomeUnknownError extends ProblemError {
    /** After how many milliseconds the same call may be made again, if the server says so. */
    readonly retryAfterMs: number | undefined;
    constructor(code: string, status: number, message: string, retryAfterMs?: number, options?: ErrorOptions);
}
/** An argument breaks a rule of the server. */
export declare class InvalidError extends ProblemError {
    readonly field: string | undefined;
    readonly value: string | undefined;
    readonly rule: string | undefined;
    constructor(code: string, status: number, message: string, body: ProblemBody);
}
/** Others hold a record that was to be locked; nothing was locked. */
export declare class LockedError extends ProblemError {
    readonly conflicts: Conflict[];
    constructor(code: string, status: number, message: string, body: ProblemBody);
    /** Those who hold any of the records. */
    get holders(): Holder[];
}
/** Another claim stands on the resource. */
export declare class ClaimedError extends ProblemError {
    /** Who claims it. */
    readonly holder: Holder | undefined;
    /** When that claim ends unless it is renewed. */
    readonly expiresAt: Date | undefined;
    constructor(code: string, status: number, message: string, body: ProblemBody);
}
/** A Web Lock or an offline lock holds the name of the resource, or a request waits for it. */
export declare class BusyError extends ProblemError {
    readonly holders: Holder[];
    /** How many requests wait for it. */
    readonly queued: number;
    constructor(code: string, status: number, message: string, body: ProblemBody);
}
/** The resource has been assigned for good; it can be claimed again once it is unassigned. */
export declare class AlreadyAssignedError extends ProblemError {
    /** To whom it is assigned. */
    readonly claimant: string | undefined;
    constructor(code: string, status: number, message: string, body: ProblemBody);
}
/** Another claim stands, with another token, which is not touched, or has been made final. */
export declare class ClaimLostError extends ProblemError {
    /** To whom the resource is assigned, if the other claim was made final. */
    readonly claimant: string | undefined;
    constructor(code: string, status: number, message: string, body: ProblemBody);
}
/** No claim stands any more, nor was another made final: its time was over, or it was released. */
export declare class ClaimExpiredError extends ProblemError {
}
/** A lock that is not its owner's any more. */
export interface LostLock {
    /** Of the record; empty if the lock is that of a name. */
    readonly kind: string;
    readonly id: string;
    /** The name of the lock, as others see it in the bucket. */
    readonly name: string;
}
/**
 * Locks under which a step has worked are not the owner's any more: they were stolen, or another step of the
 * owner has released them. Others may have changed what they guard. Nothing was released.
 */
export declare class LocksLostError extends ProblemError {
    readonly lost: LostLock[];
    constructor(code: string, status: number, message: string, body: ProblemBody);
}
/** The owner has ended, and its locks with it. */
export declare class UnknownOwnerError extends ProblemError {
}
/** The secret is not that of the owner. */
export declare class UnauthorizedError extends ProblemError {
}
/**
 * The server does not serve the call now: it cannot, or the tenant has asked for too much at once
 * (`rate_limited`).
 */
export declare class UnavailableError extends ProblemError {
    /** After how many milliseconds it makes sense to try again. */
    readonly retryAfterMs: number | undefined;
    constructor(code: string, status: number, message: string, retryAfterMs: number | undefined);
}
/** The server has been restarted and waits for the holders from before, so that no name gets two of them. */
export declare class RecoveringError extends UnavailableError {
}
/**
 * Makes the error for an answer that is no success. `retryAfter` is the header of that name. Of a question no
 * outcome is unknown, as it changes nothing.
 */
export declare function problemError(status: number, body: ProblemBody, retryAfter: string | null, isQuestion: boolean): ProblemError;
/** Reads a holder as the server reports it. */
export declare function readHolder(raw: ProblemBody): Holder;
