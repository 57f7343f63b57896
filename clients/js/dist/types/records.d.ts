import { toWellFormed } from './checks.js';
import type { ProblemBody } from './problems.js';
import type { LockMode } from './types.js';
/** Names a record: what kind it is of, at most 64 characters, and its id, at most 256. */
export interface RecordKey {
    readonly kind: string;
    readonly id: string;
}
/** A record that is to be locked, and what for. */
export interface RecordTarget extends RecordKey {
    readonly intent: 'read' | 'write';
}
/** A lock that an owner holds on a record. */
export interface RecordLock extends RecordKey {
    /** The name of the lock, as others see it in the bucket. */
    readonly name: string;
    readonly mode: LockMode;
    /** The id of the owner. */
    readonly owner: string;
    /** What the owner is called. */
    readonly label: string;
    readonly since: Date;
    /** When the owner ends unless it is renewed. */
    readonly expiresAt?: Date;
    /** An integer that grows over the grants of the bucket, to be presented with each write to the record. */
    readonly fencingToken: number;
    readonly metadata?: string;
}
/** What asking for a lock has come to. */
export interface RecordGrant extends RecordTarget {
    readonly name: string;
    /** Null where the server's lock type for this kind asks readers for no lock. */
    readonly mode: LockMode | null;
    /** Null where there is no lock. */
    readonly fencingToken: number | null;
    /** `upgraded`: the owner was the sole reader and now may write. `notNeeded`: see {@link mode}. */
    readonly how: 'fresh' | 'upgraded' | 'alreadyHeld' | 'notNeeded';
}
/** A record whose lock is meant. */
export interface ReleaseTarget extends RecordKey {
    /** Only this grant is meant. */
    readonly fencingToken?: number | undefined;
}
/** Records that are to be locked. */
export declare const toTargets: import("./checks.js").Check<import("./checks.js").Checked<{
    kind: typeof toWellFormed;
    id: typeof toWellFormed;
    intent: typeof toWellFormed;
}>[]>;
declare const toGrants: import("./checks.js").Check<import("./checks.js").Checked<{
    kind: typeof toWellFormed;
    id: typeof toWellFormed;
    fencingToken: import("./checks.js").Check<number | undefined>;
}>[]>;
/** Records whose locks are meant, or only those grants of them. A grant that needed no lock has none. */
export declare function toReleases(field: string, value: unknown): ReturnType<typeof toGrants>;
/** Records, whatever their grants. */
export declare const toKeys: import("./checks.js").Check<import("./checks.js").Checked<{
    kind: typeof toWellFormed;
    id: typeof toWellFormed;
}>[]>;
/** Reads a lock as the server reports it. */
export declare function readLock(raw: ProblemBody): RecordLock;
/** Reads a grant as the server reports it. */
export declare function readGrant(raw: ProblemBody): RecordGrant;
export {};
