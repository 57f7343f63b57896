/** Notified when the page enters the back/forward cache, or is unloaded, and when it is shown again. */
export interface Sleeper {
    sleep(): void;
    wake(): void;
}
/**
 * The checks that come first in request() and query(): a fully active document, then a lock manager that can
 * be obtained.
 */
export declare function checkEnvironment(): void;
/**
 * Whether this context is one in which `navigator.locks` exists. Where there is no such notion, as in Node,
 * it is.
 */
export declare function isSecure(): boolean;
/**
 * Whether the context may have storage, and so locks: an opaque origin has none, and the user may have
 * forbidden it.
 */
export declare function isStorageDenied(): boolean;
/** From now on notifies it when the page goes and comes. Returns the function that ends this. */
export declare function watchLifecycle(sleeper: Sleeper): () => void;
