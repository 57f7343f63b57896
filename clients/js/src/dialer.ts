import { Backoff } from './backoff.js';
import type { Endpoints } from './endpoints.js';
import { type RawFrame, readPauseMs } from './frames.js';
import { DIAL_TIMEOUT_MS } from './goodbye.js';
import type { WebSocketLike } from './types.js';
import type { Endpoint } from './url.js';

/** How long the first attempt at one of several endpoints may take. */
const FIRST_PATIENCE_MS = 2_000;

/** The server has as many connections or sessions as it may. The reason names the setting. */
const CLOSE_FULL = 1013;

/** No server keeps a client away for longer. */
const LONGEST_NAMED_MS = 5_000;

/**
 * Connects to one endpoint after another. A round is one attempt at each; before it there is a pause, and
 * within it none. Both the pauses and the time that an attempt may take double with each round.
 *
 * `urgentMs` is the heartbeat while there are locks to reclaim: no pause is longer then, and the attempts of
 * the first round give up after it, so that the next endpoint is tried long before the lease is over.
 */
export class Dialer {
  readonly #endpoints: Endpoints;
  readonly #open: (endpoint: Endpoint) => WebSocketLike;
  readonly #backoff = new Backoff();
  /** The pause that the server has named for the next round. */
  #namedMs = 0;
  #latest: Endpoint;
  /** The error of the latest connection, as the platform reports it. Browsers report none. */
  #error = '';
  #trouble: string | undefined;
  /** The attempts that are left of this round. */
  #left = 0;
  /** The rounds since there was a connection, with this one. */
  #rounds = 0;

  /** `open` throws what the constructor of a WebSocket throws. */
  constructor(endpoints: Endpoints, open: (endpoint: Endpoint) => WebSocketLike) {
    this.#endpoints = endpoints;
    this.#open = open;
    this.#latest = endpoints.current;
  }

  /** Begins a connection. */
  readonly dial = (): WebSocketLike => {
    if (this.#left === 0) {
      this.#left = this.#endpoints.all.length;
      this.#rounds += 1;
    }
    this.#left -= 1;
    this.#error = '';
    this.#latest = this.#endpoints.current;
    return this.#open(this.#latest);
  };

  /** The latest connection has an error, which comes before its close. */
  readonly erred = ({ message }: { readonly message?: unknown }): void => {
    if (typeof message === 'string') this.#error = message;
  };

  /** The close of the latest connection, with its error. `fatal` is what the server has said before. */
  explained(code: number, reason: string, fatal: string): string {
    const words = code === CLOSE_FULL ? `the server takes no more sessions now: ${reason}` : fatal;
    const close = `close code ${code}${words && `, ${words}`}`;
    return this.#error === '' ? close : `${this.#error}, ${close}`;
  }

  /** The latest attempt is of no use, or its connection has broken: the next one goes elsewhere. */
  failed(why?: string): void {
    if (why !== undefined) this.#trouble = `cannot connect to ${this.#endpoints} (${why})`;
    this.#endpoints.failed(this.#latest);
  }

  /** Why there is no connection; undefined while there is one, and before the first attempt has failed. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** The server is about to close the connection, and may name the pause before the next one. */
  closing(frame: RawFrame): void {
    this.#namedMs = Math.min(readPauseMs(frame), LONGEST_NAMED_MS);
  }

  /** There is a connection. Once it breaks, a pause comes first, so that a crowd does not move as one. */
  connected(): void {
    this.#trouble = undefined;
    this.#left = 0;
    this.#rounds = 0;
  }

  /** The connection has proved good. */
  proved(): void {
    this.#backoff.reset();
  }

  /** Whether the next attempt begins a round. */
  get isRoundOver(): boolean {
    return this.#left === 0;
  }

  /** Milliseconds to wait before the next attempt. */
  pauseMs(urgentMs: number | undefined): number {
    if (!this.isRoundOver) return 0;
    const namedMs = Math.min(this.#namedMs, urgentMs ?? this.#namedMs);
    this.#namedMs = 0;
    return Math.max(namedMs, this.#backoff.nextMs(urgentMs));
  }

  /** Milliseconds after which the latest attempt, from the dial to the welcome, is given up. */
  patienceMs(urgentMs: number | undefined): number {
    const isOnly = this.#endpoints.all.length === 1;
    const firstMs = urgentMs ?? (isOnly ? DIAL_TIMEOUT_MS : FIRST_PATIENCE_MS);
    return Math.min(DIAL_TIMEOUT_MS, firstMs * 2 ** (this.#rounds - 1));
  }
}
