import { type CallOptions } from './caller.js';
import { Owner } from './owner.js';
import { type RecordLock } from './records.js';
/** Which locks to list. */
export interface LocksFilter extends CallOptions {
    /** Of records of this kind. */
    kind?: string | undefined;
    /** Of the owner with this id. */
    owner?: string | undefined;
    /** Whose {@link RecordLock.name} begins like this. */
    prefix?: string | undefined;
}
/** What a new owner is like. */
export interface OwnerOptions extends CallOptions {
    /** The owner, as others see it when they are refused. At most 256 bytes of UTF-8. */
    label: string;
    /**
     * Milliseconds without any call after which the owner and its locks end. Default: that of the server, 20
     * minutes.
     */
    ttlMs?: number | undefined;
    /** Milliseconds after which the owner ends in any case. */
    maxMs?: number | undefined;
    /** A text that others see beside the label. */
    metadata?: string | undefined;
    /** Whether to notify the server from time to time that this owner lives on. Default true. */
    heartbeats?: boolean | undefined;
}
/** Of an owner that was opened before. */
export interface ResumeOptions extends CallOptions {
    /** As in {@link OwnerOptions}. */
    heartbeats?: boolean | undefined;
}
/**
 * Offline locks: records that a business transaction keeps to itself over many requests, refused at once to
 * anyone else. They are durable: they outlive this context, and a restart of the server.
 */
export declare class Offline {
    #private;
    /**
     * Begins an owner of locks, such as a user's session. Keep its `id` and `secret` to {@link resume} it.
     *
     * Rejects with a TypeError for an option that is not understood, as all of these methods do, or with a
     * {@link ProblemError}: of class InvalidError for an option that breaks a rule of the server,
     * UnavailableError or UnreachableError if the timeout did not suffice, or OutcomeUnknownError where it may
     * have happened.
     */
    open(options: OwnerOptions): Promise<Owner>;
    /**
     * Takes up an owner again, such as after a reload of the page. Its locks are as they were: see
     * {@link Owner.locks}.
     *
     * Rejects with an UnknownOwnerError if it has ended, or an UnauthorizedError if the secret is not its.
     */
    resume(id: string, secret: string, options?: ResumeOptions): Promise<Owner>;
    /**
     * The offline locks of the bucket, of all owners, in the order of their names. They are fetched page
     * by page, so that together they are no consistent cut: use them to show who edits what, and decide nothing
     * by them.
     */
    locks(options?: LocksFilter): AsyncGenerator<RecordLock, void, undefined>;
}
