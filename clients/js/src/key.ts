/**
 * What says who connects, where the server wants to know: an API key or a token. A function is asked for it
 * with each connection and each call, and a little before a token ends, so that it should give what something
 * else keeps fresh.
 */
export type Key = string | (() => string | PromiseLike<string>);

/** The most characters that the server reads. */
const LONGEST = 8192;

/** Gives the key of the moment; undefined if there is none. */
export class Keys {
  readonly #key: Key | undefined;

  constructor(key: Key | undefined) {
    this.#key = typeof key === 'function' || key === undefined ? key : checked(key);
  }

  /** Whether the next key may be another one. */
  get mayChange(): boolean {
    return typeof this.#key === 'function';
  }

  /**
   * The key, or a promise of it where it has to be asked for. Rejects with what the function throws, and with
   * a TypeError for what is no key.
   */
  now(): string | undefined | Promise<string> {
    const key = this.#key;
    return typeof key === 'function' ? askFor(key) : key;
  }
}

async function askFor(key: () => string | PromiseLike<string>): Promise<string> {
  return checked(await key());
}

/** The value is a secret, so that no error repeats it. */
function checked(key: unknown): string {
  if (typeof key === 'string' && key.length <= LONGEST && /^[!-~]+$/.test(key)) return key;
  throw new TypeError(`key: must be a string of 1 to ${LONGEST} visible ASCII characters`);
}
