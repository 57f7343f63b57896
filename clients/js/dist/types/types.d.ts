import type { HeldLock, Lock } from './lock.js';
/**
 * `"exclusive"`: one holder at a time. `"shared"`: any number of shared holders together, and no exclusive
 * one.
 */
export type LockMode = 'exclusive' | 'shared';
/** The options of the specification. */
export interface LockOptions {
    /** Default `"exclusive"`. */
    mode?: LockMode | undefined;
    /** Call back with null at once, instead of waiting, when the lock is not to be had without waiting. */
    ifAvailable?: boolean | undefined;
    /** Take the lock from its holders, ahead of all who wait. The former holder's code keeps running. */
    steal?: boolean | undefined;
    /** Gives the request up when aborted before the grant; ignored after it. */
    signal?: AbortSignal | undefined;
}
/** The options of the specification and those of lockhouse. */
export interface RequestOptions extends LockOptions {
    /** The lock is lost, with the reason `"expired"`, when held for this many milliseconds. */
    maxHold?: number | undefined;
    /** A text that others see beside the lock in detailed snapshots and refusals. */
    metadata?: string | undefined;
    /** Milliseconds after which a request that still waits rejects with a TimeoutError. */
    timeout?: number | undefined;
}
/** Options of a request that waits until it is granted, so that its callback never gets null. */
export type WaitingOptions = RequestOptions & {
    ifAvailable?: false | undefined;
};
/** One entry of a snapshot. */
export interface LockInfo {
    clientId: string;
    mode: LockMode;
    name: string;
}
/** What `query()` resolves to: one consistent cut, which may be out of date by the time it is seen. */
export interface LockManagerSnapshot {
    held: LockInfo[];
    pending: LockInfo[];
}
/** Runs while the lock is held, which it is until what this returns settles. */
export type LockGrantedCallback<T, L extends Lock | null = Lock | null> = (lock: L) => T | PromiseLike<T>;
/** As {@link LockGrantedCallback}, with the lock of the extended manager. */
export type HeldLockCallback<T, L extends HeldLock | null = HeldLock | null> = LockGrantedCallback<T, L>;
/**
 * `connecting` until the first welcome, then `open`; `lost` while the connection is down and being renewed;
 * `closed` for good.
 */
export type ConnectionState = 'connecting' | 'open' | 'lost' | 'closed';
/**
 * As much of the WebSocket interface as this client uses; that of browsers and that of the package `ws` both
 * have it.
 */
export interface WebSocketLike {
    onopen: ((event: never) => void) | null;
    onmessage: ((event: never) => void) | null;
    onerror: ((event: never) => void) | null;
    onclose: ((event: never) => void) | null;
    send(data: string): void;
    close(code?: number, reason?: string): void;
}
/** The close of a WebSocket, as the platform reports it. */
export interface CloseLike {
    readonly code: number;
    readonly reason?: string;
}
export type WebSocketConstructor = new (url: string, protocols: string) => WebSocketLike;
/** What this client gives fetch beside the URL. */
export interface FetchInit {
    method: string;
    headers: Record<string, string>;
    body?: string;
    signal: AbortSignal;
    credentials: 'omit';
    cache: 'no-store';
    redirect: 'manual';
}
/** As much of a Response as this client uses. */
export interface ResponseLike {
    readonly ok: boolean;
    readonly status: number;
    /** `opaqueredirect` of a redirect in browsers, which do not tell where it leads. */
    readonly type?: string;
    readonly headers: {
        get(name: string): string | null;
    };
    text(): Promise<string>;
    /** The body piece by piece, which only events need. */
    readonly body?: ReadableStream<Uint8Array> | null;
}
/** As much of fetch as this client uses. */
export type FetchLike = (url: string, init: FetchInit) => Promise<ResponseLike>;
