const FIRST_MS = 100;
const LONGEST_MS = 5_000;

/**
 * The growing pause between attempts to connect, with jitter, so that a restarted server is not met by all
 * clients at once.
 */
export class Backoff {
  #attempts = 0;

  /**
   * Milliseconds to wait before the next attempt: half to the whole of a span that doubles up to 5 s, or up
   * to `mostMs` if that is less.
   */
  nextMs(mostMs = LONGEST_MS): number {
    const span = Math.min(LONGEST_MS, mostMs, FIRST_MS * 2 ** this.#attempts);
    this.#attempts += 1;
    return span * (0.5 + Math.random() / 2);
  }

  /** The connection has proved good. */
  reset(): void {
    this.#attempts = 0;
  }
}
