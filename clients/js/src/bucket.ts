import type { Agent } from './agent.js';
import type { Caller } from './caller.js';
import { toOptions } from './checks.js';
import { Claims } from './claims.js';
import { domError } from './errors.js';
import { type BucketEvent, EVENTS_OPTIONS, type EventsOptions, readEvents } from './events.js';
import { clientClosed } from './lock.js';
import { type ExtendedLockManager, newExtendedLockManager, type Source } from './lock-manager.js';
import { keepAlive } from './node.js';
import { Offline } from './offline.js';
import { setQuietTimeout } from './timers.js';

/**
 * The locks of one bucket of a server. In each of the three ways a name is the same resource, unless the
 * client has a partition.
 */
export interface Bucket {
  readonly name: string;
  /** Web Locks: held while a task runs. */
  readonly locks: ExtendedLockManager;
  /** Offline locks: held by a business transaction over many requests. They know no partitions. */
  readonly offline: Offline;
  /** Claims: reservations for a time. They know no partitions. */
  readonly claims: Claims;
  /**
   * What happens in the bucket from now on, or from an event on: grants, waits, ends and refusals of all
   * three kinds. It connects again by itself and goes on where it was; a `gap`, and then the `state`, comes
   * where events are missing. Each iteration has a connection of its own.
   *
   * Throws a TypeError for an option that cannot be used. The iteration throws the ProblemError of a server
   * that refuses it, and the reason of the signal.
   */
  events(options?: EventsOptions): AsyncIterableIterator<BucketEvent>;
  /**
   * Ends the use of this bucket: locks are released, and everything pending rejects with an AbortError, as
   * does every later call with an InvalidStateError.
   */
  close(): void;
}

/** How the buckets of a client get what they are made of. */
export interface BucketHost {
  /** The checks that come first in every call; throws what keeps it from being made. */
  admit(): void;
  /** Connects to the bucket of this name; the agent tells when it begins and ceases to have anything open. */
  connect(bucket: string, onbusy: (isBusy: boolean) => void): Agent;
  caller(bucket: string, admit: () => void, closed: AbortSignal): Caller;
  /** The bucket of this name has been closed. */
  forget(bucket: string): void;
}

/** For how long a connection is kept in which nothing is held and nothing is pending. */
export const IDLE_MS = 30_000;

/** One bucket of a client, with a connection while there is something to do. */
export class ConnectedBucket implements Bucket {
  readonly name: string;
  readonly source: Source = { admit: () => this.#admit(), agent: () => this.agent() };
  readonly locks: ExtendedLockManager = newExtendedLockManager(this.source);
  readonly offline: Offline;
  readonly claims: Claims;
  readonly #caller: Caller;
  readonly #host: BucketHost;
  readonly #idleMs: number;
  readonly #closing = new AbortController();
  #agent: Agent | undefined;
  /** Lets the process end, which is kept for what is held or pending. */
  #letGo: (() => void) | undefined;
  #idleTimer: ReturnType<typeof setTimeout> | undefined;

  /** A bucket that is connected for good has the `idleMs` Infinity. */
  constructor(name: string, host: BucketHost, idleMs: number) {
    this.name = name;
    this.#host = host;
    this.#idleMs = idleMs;
    const caller = host.caller(name, this.source.admit, this.#closing.signal);
    this.#caller = caller;
    this.offline = new Offline(caller);
    this.claims = new Claims(caller);
  }

  events(options: EventsOptions = {}): AsyncIterableIterator<BucketEvent> {
    return readEvents(this.#caller, toOptions(options, EVENTS_OPTIONS));
  }

  /** The agent, which is connected if there is none. */
  agent(): Agent {
    if (!this.#agent) {
      this.#agent = this.#host.connect(this.name, (isBusy) => this.#watch(isBusy));
      this.#watch(false);
    }
    return this.#agent;
  }

  /** The agent if there is one. */
  get connected(): Agent | undefined {
    return this.#agent;
  }

  close(): void {
    if (this.#closing.signal.aborted) return;
    clearTimeout(this.#idleTimer);
    this.#agent?.close();
    this.#closing.abort(clientClosed());
    this.#host.forget(this.name);
  }

  #admit(): void {
    this.#host.admit();
    if (this.#closing.signal.aborted) throw domError('InvalidStateError', 'The bucket is closed.');
  }

  #watch(isBusy: boolean): void {
    clearTimeout(this.#idleTimer);
    this.#letGo?.();
    this.#letGo = isBusy ? keepAlive() : undefined;
    if (isBusy || this.#idleMs === Infinity) return;
    this.#idleTimer = setQuietTimeout(() => {
      this.#agent?.close();
      this.#agent = undefined;
    }, this.#idleMs);
  }
}
