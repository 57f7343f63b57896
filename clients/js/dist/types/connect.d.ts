import { type Adoptable } from './adoption.js';
import { type Bucket } from './bucket.js';
import type { Claims } from './claims.js';
import type { BucketEvent, EventsOptions } from './events.js';
import { type Key } from './key.js';
import type { ExtendedLockManager, Source } from './lock-manager.js';
import type { Offline } from './offline.js';
import type { ConnectionState, FetchLike, WebSocketConstructor } from './types.js';
import { type ServerUrls } from './url.js';
/** How to connect. */
export interface ConnectOptions {
    /**
     * The storage bucket whose locks are meant, at most 256 bytes of UTF-8. Default: the `bucket` of the URL's
     * query, else `"default"`.
     */
    bucket?: string | undefined;
    /**
     * The name under which others see this context in snapshots, at most 256 bytes of UTF-8. Default: one UUID
     * per context.
     */
    clientId?: string | undefined;
    /**
     * Contexts of one bucket share locks only if their partitions, at most 256 bytes of UTF-8, are equal.
     * Default: empty, but for a frame below another origin the list of the origins, `origins: …`, of which the
     * server makes the partition that its storage has, and for a credentialless frame one of its own. A worker
     * cannot know: give it the `partition` of its page's client.
     */
    partition?: string | undefined;
    /**
     * What says who connects, where the server wants to know: an API key or a token, sent in the first frame
     * and in a header, never in a URL. A function is asked for it with each connection and each call, and a
     * little before a token ends. A constant key that the server does not take closes the client; a function is
     * asked again, after a growing pause of at least a second.
     */
    key?: Key | undefined;
    /** The WebSocket class, where the platform has none (Node 20): that of the package `ws` will do. */
    WebSocket?: WebSocketConstructor | undefined;
    /** How offline locks and claims reach the server. Default: the platform's fetch. */
    fetch?: FetchLike | undefined;
    /** As {@link Client.onstate}, set from the beginning. */
    onstate?: ((state: ConnectionState) => void) | null | undefined;
}
/** A client of one lockhouse server. */
export interface Client extends Bucket {
    /** The partition of this client, to be handed to the workers of a page. */
    readonly partition: string;
    /** The state of the connection for {@link locks}. */
    readonly state: ConnectionState;
    /**
     * Called with each new {@link state}. Setting it throws a TypeError for what is neither a function nor
     * null.
     */
    onstate: ((state: ConnectionState) => void) | null;
    /**
     * Another bucket of the same server, the same object until it is closed; the own one is this client. It has
     * a connection of its own, made with the first request, and closed when nothing has been held or pending
     * for 30 s, until the next request. Throws a TypeError for a name of more than 256 bytes of UTF-8.
     */
    bucket(name: string): Bucket;
    /**
     * In Node: ends the locks that the clients of this worker have of the same server, at once when the worker
     * exits. One that is terminated cannot do so itself, and leaves them to their lease. Without effect in
     * browsers, where no worker leaves its locks.
     *
     * Throws a TypeError for anything that is not a Worker.
     */
    adopt(worker: Adoptable): void;
    /**
     * Ends the client and all its buckets: locks are released, and everything pending rejects with an
     * AbortError.
     */
    close(): void;
}
type Listener = (state: ConnectionState) => void;
/**
 * Connects to a lockhouse server. Returns at once; what is called before the connection is open waits in
 * order.
 *
 * The URL is http(s) or ws(s), the path `/` standing for `/v1/ws`, with an optional `?bucket=NAME`. It may be
 * an array of several, of which each serves every client, such as those of the nodes of a fleet: the client
 * begins with any one of them, and goes on to the next where one does not answer.
 *
 * Throws a TypeError for a URL or option that cannot be used, and what the WebSocket constructor throws, such
 * as a SecurityError for an insecure address in a secure page.
 */
export declare function connect(url: ServerUrls, options?: ConnectOptions): Client;
/** As {@link connect}, with the sources from which more managers of the same connections can be made. */
export declare class LockhouseClient implements Client {
    #private;
    readonly name: string;
    readonly partition: string;
    readonly locks: ExtendedLockManager;
    readonly offline: Offline;
    readonly claims: Claims;
    constructor(url: ServerUrls, options: ConnectOptions);
    get state(): ConnectionState;
    get onstate(): Listener | null;
    set onstate(listener: Listener | null | undefined);
    events(options?: EventsOptions): AsyncIterableIterator<BucketEvent>;
    bucket(name: string): Bucket;
    /** Where the calls of a manager for this bucket go. Throws a TypeError for a name that is too long. */
    source(bucket: string): Source;
    adopt(worker: Adoptable): void;
    close(): void;
}
export {};
