import { toSecret } from './checks.js';
import { setQuietTimeout } from './timers.js';

/**
 * What says who connects, where the server wants to know: an API key or a token. A function is asked for it
 * with each connection and each call, and a little before a token ends, so that it should give what something
 * else keeps fresh.
 */
export type Key = string | (() => string | PromiseLike<string>);

/** The pause before the function is asked again for a key in place of one that was refused. */
export const REFUSED_PAUSE_MS = 1_000;

/** Gives the key of the moment; undefined if there is none. */
export class Keys {
  readonly #key: Key | undefined;
  /** When the function may be asked again, by the monotonic clock; 0 while its keys are taken. */
  #nextMs = 0;
  /** What all who want a key wait for, while keys are refused. */
  #next: Promise<string> | undefined;

  constructor(key: Key | undefined) {
    this.#key = key;
  }

  /** Whether the next key may be another one. */
  get mayChange(): boolean {
    return typeof this.#key === 'function';
  }

  /**
   * The key, or a promise of it where it has to be asked for. Rejects with what the function throws, and with
   * a WrongKey for what is no key.
   */
  now(): string | undefined | Promise<string> {
    const key = this.#key;
    if (typeof key !== 'function') return key;
    if (this.#nextMs === 0) return askFor(key);
    this.#next ??= this.#later(key).finally(() => {
      this.#next = undefined;
    });
    return this.#next;
  }

  /** Uses the key, at once if it is at hand. */
  use(use: (key: string | undefined) => void, fail: (error: unknown) => void): void {
    const key = this.now();
    if (typeof key === 'object') key.then(use, fail);
    else use(key);
  }

  /** The server has refused a key: from now on the function is asked at most once a second for all callers. */
  refused(): void {
    this.#nextMs = performance.now() + REFUSED_PAUSE_MS;
  }

  /** The server has taken a key. */
  taken(): void {
    this.#nextMs = 0;
  }

  get #pauseMs(): number {
    return this.#nextMs - performance.now();
  }

  async #later(key: () => string | PromiseLike<string>): Promise<string> {
    // A timer may come a little early, and another key be refused meanwhile.
    for (let ms = this.#pauseMs; ms > 0; ms = this.#pauseMs) {
      await new Promise<void>((resolve) => setQuietTimeout(resolve, Math.ceil(ms)));
    }
    this.refused();
    return askFor(key);
  }
}

/** A function has given what is no key. Asking again would not help: the program is wrong. */
export class WrongKey extends TypeError {}

async function askFor(key: () => string | PromiseLike<string>): Promise<string> {
  const given: unknown = await key();
  try {
    return toSecret('key', given);
  } catch (error) {
    throw new WrongKey((error as Error).message);
  }
}

/** A key, or a function that will give some. */
export function toKey(field: string, value: unknown): Key {
  return typeof value === 'function' ? (value as () => string) : toSecret(field, value);
}
