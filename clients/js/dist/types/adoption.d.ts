import type { Identity } from './bodies.js';
/** A worker of Node, as far as it matters here. */
export interface Adoptable {
    readonly threadId: number;
    once(event: 'exit', listener: () => void): unknown;
}
/**
 * Begins to announce the sessions of one client of this thread, if it is a worker. Returns what is to be
 * called with each session, and with undefined once there is none.
 */
export declare function announceSessions(url: string): (identity: Identity | undefined) => void;
/** Calls back with each session that the thread of this worker leaves. Returns the function that ends this. */
export declare function watchSessions(worker: Adoptable, onleft: (url: string, identity: Identity) => void): () => void;
