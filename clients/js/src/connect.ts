import { type Adoptable, announceSessions, watchSessions } from './adoption.js';
import { Agent } from './agent.js';
import { type Bucket, ConnectedBucket, IDLE_MS } from './bucket.js';
import { Caller } from './caller.js';
import { broken, fitting, optional, toBucket, toFunction, toOptions, toPartition } from './checks.js';
import type { Claims } from './claims.js';
import { Dialer } from './dialer.js';
import { Endpoints } from './endpoints.js';
import { checkEnvironment, isSecure, isStorageDenied, watchLifecycle } from './environment.js';
import { domError, reportException } from './errors.js';
import type { BucketEvent, EventsOptions } from './events.js';
import { sayGoodbye } from './goodbye.js';
import { type Key, Keys, toKey } from './key.js';
import type { ExtendedLockManager, Source } from './lock-manager.js';
import { SUBPROTOCOL, threads, unreferenced } from './node.js';
import type { Offline } from './offline.js';
import { currentPartition } from './partition.js';
import { randomId } from './random.js';
import type { ConnectionState, FetchLike, WebSocketConstructor, WebSocketLike } from './types.js';
import { bucketOf, type Endpoint, readEndpoints, type ServerUrls, scoped } from './url.js';

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

const OPTIONS = {
  bucket: optional(toBucket),
  clientId: optional(fitting),
  partition: optional(toPartition),
  key: optional(toKey),
  WebSocket: optional(toFunction<WebSocketConstructor>),
  fetch: optional(toFunction<FetchLike>),
  onstate: toListener,
};

/** The handler of an event, as the platform has them: null is none. */
function toListener(field: string, value: unknown): Listener | null {
  return value === undefined || value === null ? null : toFunction(field, value);
}

let contextId: string | undefined;

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
export function connect(url: ServerUrls, options: ConnectOptions = {}): Client {
  return new LockhouseClient(url, options);
}

/** As {@link connect}, with the sources from which more managers of the same connections can be made. */
export class LockhouseClient implements Client {
  readonly name: string;
  readonly partition: string;
  readonly locks: ExtendedLockManager;
  readonly offline: Offline;
  readonly claims: Claims;
  readonly #endpoints: Endpoints;
  readonly #clientId: string;
  readonly #WebSocket: WebSocketConstructor | undefined;
  readonly #fetch: FetchLike | undefined;
  readonly #keys: Keys;
  readonly #own: ConnectedBucket;
  /** All that are not closed, by name. */
  readonly #buckets = new Map<string, ConnectedBucket>();
  /** What ends each adoption. */
  readonly #adoptions = new Set<() => void>();
  #unwatch: () => void = () => {};
  #onstate: Listener | null;
  #state: ConnectionState = 'connecting';
  #hasWarned = false;

  constructor(url: ServerUrls, options: ConnectOptions) {
    const given = toOptions(options, OPTIONS);
    const endpoints = readEndpoints(url, given);
    const server = (endpoints[0] as Endpoint).url;
    this.name = given.bucket ?? toBucket('bucket', bucketOf(server));
    this.partition =
      given.partition ?? toPartition('partition', server.searchParams.get('partition') ?? currentPartition());
    const scope = { bucket: this.name, partition: this.partition };
    this.#endpoints = new Endpoints(endpoints.map((each) => ({ ...each, url: scoped(each.url, scope) })));
    this.#onstate = given.onstate;
    this.#clientId = given.clientId ?? ownContextId();
    this.#WebSocket = given.WebSocket ?? (globalThis as { WebSocket?: WebSocketConstructor }).WebSocket;
    this.#keys = new Keys(given.key);
    this.#fetch = given.fetch ?? (globalThis as { fetch?: FetchLike }).fetch;
    this.#own = this.#bucket(this.name);
    ({ locks: this.locks, offline: this.offline, claims: this.claims } = this.#own);
    if (isStorageDenied() || !isSecure()) {
      this.#state = 'closed';
      queueMicrotask(() => this.#announce('closed'));
      return;
    }
    if (!this.#WebSocket) {
      throw new TypeError(
        'WebSocket: this platform has none, so the option must give a constructor, such as that of ws',
      );
    }
    this.#own.agent();
    this.#unwatch = watchLifecycle({ sleep: () => this.#sleep(), wake: () => this.#wake() });
    // A listener that is set right after connect() is notified of the beginning, too.
    queueMicrotask(() => this.#state === 'connecting' && this.#announce('connecting'));
  }

  get state(): ConnectionState {
    return this.#state;
  }

  get onstate(): Listener | null {
    return this.#onstate;
  }

  set onstate(listener: Listener | null | undefined) {
    this.#onstate = toListener('onstate', listener);
  }

  events(options: EventsOptions = {}): AsyncIterableIterator<BucketEvent> {
    return this.#own.events(options);
  }

  bucket(name: string): Bucket {
    const bucket = this.#bucket(name);
    return bucket === this.#own ? this : bucket;
  }

  /** Where the calls of a manager for this bucket go. Throws a TypeError for a name that is too long. */
  source(bucket: string): Source {
    return this.#bucket(bucket).source;
  }

  adopt(worker: Adoptable): void {
    if (!threads) return;
    if (typeof worker?.once !== 'function' || !Number.isInteger(worker.threadId)) {
      throw broken('worker', worker, 'a Worker of node:worker_threads');
    }
    this.#admit();
    const stop = watchSessions(worker, (url, identity) => {
      this.#adoptions.delete(stop);
      const { origin, pathname, search } = new URL(url);
      const isOurs = this.#endpoints.all.some((each) => each.url.origin === origin && each.url.pathname === pathname);
      if (!isOurs) return;
      const { current } = this.#endpoints;
      sayGoodbye(() => this.#dial(new URL(search, current.url)), this.#keys, identity);
    });
    this.#adoptions.add(stop);
  }

  close(): void {
    if (this.#state === 'closed') return;
    this.#unwatch();
    for (const stop of this.#adoptions) stop();
    this.#state = 'closed';
    for (const bucket of [...this.#buckets.values()]) bucket.close();
    this.#announce('closed');
  }

  #bucket(name: string): ConnectedBucket {
    const existing = this.#buckets.get(name);
    if (existing) return existing;
    toBucket('bucket', name);
    const host = {
      admit: () => this.#admit(),
      connect: this.#connect.bind(this),
      caller: (bucket: string, admit: () => void, closed: AbortSignal) =>
        new Caller(this.#endpoints, bucket, this.#fetch, this.#keys, admit, closed),
      forget: (bucket: string) => this.#buckets.delete(bucket),
    };
    const bucket = new ConnectedBucket(name, host, name === this.name ? Infinity : IDLE_MS);
    this.#buckets.set(name, bucket);
    return bucket;
  }

  #admit(): void {
    checkEnvironment();
    if (!isSecure()) throw domError('SecurityError', 'Locks are to be had in secure contexts only.');
    if (this.#state === 'closed') throw this.#closedError();
  }

  /** A client that was denied says so for as long as it is asked. */
  #closedError(): DOMException {
    const { session } = this.#own.connected ?? {};
    return session?.closedError ?? domError('InvalidStateError', 'The lockhouse client is closed.');
  }

  #connect(bucket: string, onbusy: (isBusy: boolean) => void): Agent {
    const dialer = new Dialer(this.#endpoints, ({ url }) => this.#dial(scoped(url, { bucket })));
    const agent = new Agent(this.#clientId, dialer, this.#keys, {
      identified: announceSessions(scoped(this.#endpoints.current.url, { bucket }).href),
      stateChanged: bucket === this.name ? (state) => this.#setState(state) : () => {},
      unreachable: (why, isLast) => this.#warn(why, isLast),
      busyChanged: onbusy,
    });
    agent.session.open();
    return agent;
  }

  #dial(url: URL): WebSocketLike {
    const WebSocket = this.#WebSocket as WebSocketConstructor;
    return unreferenced(new WebSocket(url.href, SUBPROTOCOL));
  }

  #setState(state: ConnectionState): void {
    if (this.#state === 'closed' || this.#state === state) return;
    if (state === 'closed') {
      this.close();
      return;
    }
    this.#state = state;
    this.#announce(state);
  }

  /** Says once that the server may not be where the URL says. */
  #warn(why: string, isLast: boolean): void {
    if (this.#hasWarned || this.#state !== 'connecting') return;
    this.#hasWarned = true;
    console.warn(`lockhouse: cannot connect to ${this.#endpoints} (${why})${isLast ? '' : '; trying again'}`);
  }

  /** Calls the user's listener, whose errors are its own: the session goes on. */
  #announce(state: ConnectionState): void {
    try {
      this.#onstate?.call(this, state);
    } catch (error) {
      reportException(error);
    }
  }

  #sleep(): void {
    for (const { connected } of this.#buckets.values()) connected?.session.sleep();
  }

  #wake(): void {
    for (const { connected } of this.#buckets.values()) connected?.session.wake();
  }
}

/** One id for all clients of this context. */
function ownContextId(): string {
  contextId ??= randomId();
  return contextId;
}
