import type { Endpoints } from './endpoints.js';
import { type Keys } from './key.js';
import { type Mark } from './lease.js';
import { type ProblemBody, UnreachableError } from './problems.js';
import type { FetchLike, ResponseLike } from './types.js';
/** How long and for whom a call goes on. */
export interface CallOptions {
    /** Gives the call up. What it has done by then on the server stays done. */
    signal?: AbortSignal | undefined;
    /** Milliseconds for which the call is tried, again and again where that helps. Default 30,000. */
    timeout?: number | undefined;
}
/** The members of {@link CallOptions}, with their checks. */
export declare const CALL_OPTIONS: {
    signal: import("./checks.js").Check<AbortSignal | undefined>;
    timeout: import("./checks.js").Check<number | undefined>;
};
export interface Call {
    readonly method: 'GET' | 'POST' | 'DELETE';
    /** Below the bucket, with its query. */
    readonly path: string;
    readonly secret?: string | undefined;
    readonly body?: unknown;
    /** Whether it may be done twice: by its nature, by an Idempotency-Key, or not once it may have been done. */
    readonly again: 'harmless' | 'withKey' | 'never';
    /** The codes of the problems that say that it is done already. */
    readonly doneBy?: readonly string[];
}
export interface Answer {
    /** The status; 0 of what an attempt before has done, as the answer to the last one shows. */
    readonly status: number;
    /** Empty if the answer has none. */
    readonly body: ProblemBody;
    /** When the earliest attempt that may have had this effect was sent. */
    readonly sentAt: Mark;
    /** Whether an attempt before may have been carried out, and the answer is not that attempt's. */
    readonly isRepeated: boolean;
}
/** Calls the HTTP API of one bucket. */
export declare class Caller {
    #private;
    /** `admit` throws what keeps every call from being made; `closed` aborts with the client. */
    constructor(endpoints: Endpoints, bucket: string, fetch: FetchLike | undefined, keys: Keys, admit: () => void, closed: AbortSignal);
    /** Aborts when the client is closed. */
    get closed(): AbortSignal;
    /** Whether another key may be had where one was refused. */
    get mayChangeKey(): boolean;
    /** Resolves after so many milliseconds; rejects once the signal or the client ends it. */
    pause(ms: number, signal: AbortSignal | undefined): Promise<void>;
    /**
     * Opens a stream, tried once at the endpoint that answered last. Rejects with the ProblemError of what
     * keeps it from being had. A stream in which nothing comes for so many milliseconds ends.
     */
    open(path: string, silenceMs: number, signal: AbortSignal | undefined): Promise<AnswerStream>;
    /** Makes the call. The options were checked before. */
    call(call: Call, { signal, timeout }: CallOptions): Promise<Answer>;
}
/** An answer that comes piece by piece. */
export declare class AnswerStream {
    #private;
    constructor(silenceMs: number, cancel: Cancellation, controller: AbortController, forget: () => void);
    begin(response: ResponseLike): void;
    /** The pieces as text. A connection that breaks off ends them; the end of the client or the signal throws. */
    chunks(): AsyncGenerator<string, void, void>;
    close(): void;
}
/** Reads the answer to a change. If that cannot be done, the change may have happened all the same. */
export declare function ofChange<T>(read: () => T): T;
/** Reads the answer to a question. */
export declare function ofQuestion<T>(read: () => T): T;
/** The code of an answer that no lock server gives. */
export declare const NOT_LOCKHOUSE = "not_lockhouse";
export declare function notLockhouse(status: number, why: string, options?: ErrorOptions): UnreachableError;
/** What gives a call up: its caller's signal, or the end of the client. */
declare class Cancellation {
    #private;
    constructor(...signals: (AbortSignal | undefined)[]);
    /** Calls the listener when the call is given up. Returns what ends this. */
    oncancel(listener: () => void): () => void;
    throwIfCancelled(): void;
    /** Resolves after so many milliseconds; rejects at once when the call is given up. */
    pause(ms: number): Promise<void>;
    end(): void;
}
export {};
