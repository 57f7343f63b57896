import { type Identity } from './bodies.js';
import type { Keys } from './key.js';
import type { WebSocketLike } from './types.js';
/** A WebSocket close by which the session ends at once. */
export declare const CLOSE_NORMAL = 1000;
/** How long connecting may take. */
export declare const DIAL_TIMEOUT_MS = 10000;
/**
 * Ends a session that has no connection, which the server would keep for its lease: resumes it once more,
 * only to close it.
 */
export declare function sayGoodbye(dial: () => WebSocketLike, keys: Keys, identity: Identity): void;
