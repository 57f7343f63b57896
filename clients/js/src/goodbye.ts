import { helloText, type Identity } from './bodies.js';
import type { Keys } from './key.js';
import type { WebSocketLike } from './types.js';

/** A WebSocket close by which the session ends at once. */
export const CLOSE_NORMAL = 1000;
/** How long connecting may take. */
export const DIAL_TIMEOUT_MS = 10_000;

/**
 * Ends a session that has no connection, which the server would keep for its lease: resumes it once more,
 * only to close it.
 */
export function sayGoodbye(dial: () => WebSocketLike, keys: Keys, identity: Identity): void {
  try {
    const socket = dial();
    const timer = setTimeout(() => socket.close(CLOSE_NORMAL), DIAL_TIMEOUT_MS);
    const hello = (key: string | undefined) => socket.send(helloText(key, identity));
    socket.onopen = () => keys.use(hello, () => socket.close(CLOSE_NORMAL));
    socket.onmessage = () => socket.close(CLOSE_NORMAL);
    socket.onerror = () => {};
    socket.onclose = () => clearTimeout(timer);
  } catch {
    // No connection is left for the close; the lease will end the session.
  }
}
