import { type Caller } from './caller.js';
import type { LockMode } from './types.js';
/** Which events are meant, and from where on. */
export interface EventsOptions {
    /** Only events of this name. */
    name?: string | undefined;
    /** Only events of names that begin with this. */
    prefix?: string | undefined;
    /** Only events of this discipline. */
    kind?: 'web' | 'offline' | 'claim' | undefined;
    /** Whether the present state comes first, where there is no `lastEventId`. */
    state?: boolean | undefined;
    /** Goes on behind this event. If what came after it is not kept any more, a `gap` comes first. */
    lastEventId?: string | undefined;
    /** Ends the events: what waits for the next one rejects with the reason. */
    signal?: AbortSignal | undefined;
}
/** Something that has happened in a bucket. Members that do not apply are undefined. */
export interface LockEvent {
    readonly type: 'waiting' | 'granted' | 'ended' | 'refused' | 'assigned' | 'unassigned' | 'opened' | 'closed';
    /** Its place, behind which `lastEventId` goes on. */
    readonly id: string;
    readonly at: Date;
    readonly kind: 'web' | 'offline' | 'claim';
    readonly name?: string;
    readonly mode?: LockMode;
    /** The client id of a Web Lock, the label of an owner, or the claimant. */
    readonly clientId: string;
    readonly owner?: string;
    /** An `ended` without one is the end of a wait. */
    readonly fencingToken?: number;
    /** Since when it waits or waited, of `waiting` and `granted`; since when it was held, of `ended`. */
    readonly since: Date;
    /** Why it ended, as in the history. */
    readonly end?: string;
    /** Why it was refused, in a word. */
    readonly cause?: string;
    /** The operator that broke it, and the operator's words. */
    readonly by?: string;
    readonly reason?: string;
}
/** What is held or waits at present. */
export interface StateEntry {
    readonly name: string;
    readonly kind: 'web' | 'offline' | 'claim';
    readonly state: 'held' | 'pending';
    readonly mode: LockMode;
    readonly clientId: string;
    readonly owner?: string;
    readonly since: Date;
    readonly expiresAt?: Date;
    readonly place?: number;
    readonly fencingToken?: number;
    readonly metadata?: string;
}
/** Events are missing here. The present state comes next. */
export interface GapEvent {
    readonly type: 'gap';
}
/** All that is held and waits, of what was asked for. */
export interface StateEvent {
    readonly type: 'state';
    readonly id: string;
    readonly entries: readonly StateEntry[];
}
export type BucketEvent = LockEvent | GapEvent | StateEvent;
/** The members of {@link EventsOptions}, with their checks. */
export declare const EVENTS_OPTIONS: {
    name: import("./checks.js").Check<string | undefined>;
    prefix: import("./checks.js").Check<string | undefined>;
    kind: import("./checks.js").Check<"claim" | "offline" | "web" | undefined>;
    state: import("./checks.js").Check<boolean | undefined>;
    lastEventId: import("./checks.js").Check<string | undefined>;
    signal: import("./checks.js").Check<AbortSignal | undefined>;
};
/**
 * The events of a bucket, one after the other, over as many connections as it takes. Throws the ProblemError
 * of a server that will not have it, and the reason of an abort.
 */
export declare function readEvents(caller: Caller, options: EventsOptions): AsyncGenerator<BucketEvent, void, void>;
