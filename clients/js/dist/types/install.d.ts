import { type Client, type ConnectOptions } from './connect.js';
import type { ServerUrls } from './url.js';
/**
 * Connects as {@link connect} does and puts the lock manager on `navigator.locks` of this window, worker or
 * process, and the classes LockManager and Lock on its global object, in place of native ones. In an insecure
 * context nothing is put anywhere.
 *
 * The object on `navigator.locks` has the specification's members only; the client that is returned has the
 * extended ones.
 */
export declare function install(url: ServerUrls, options?: ConnectOptions): Client;
