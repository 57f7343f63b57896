/**
 * An instant on both clocks: the monotonic one may stand still while a machine sleeps, the wall clock may be
 * set back.
 */
export interface Mark {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

interface Answer {
  readonly n: number;
  readonly at: Mark;
}

/** How much of a lease its holder counts on. */
export const SAFETY = 0.9;

/**
 * The client's own deadline: the instant at which it sent the latest answer that the server has confirmed,
 * plus the lease less 10 %, by whichever clock has advanced further, but no later than the credential's end,
 * with which the server ends the session. Before it the server grants our locks to no other client.
 */
export class Lease {
  #leaseMs = 0;
  #credentialMs = Number.POSITIVE_INFINITY;
  #confirmed: Mark | undefined;
  #hello: Mark | undefined;
  /** The hello since which the credential is good for `#credentialMs`. */
  #admitted: Mark | undefined;
  #answers: Answer[] = [];

  /** Notes that a hello is sent now. */
  helloSent(): void {
    this.#hello = now();
  }

  /** The welcome confirms the hello, and gives the time that the credential is still good, if it has an end. */
  welcomed(leaseMs: number, credentialMs = Number.POSITIVE_INFINITY): void {
    this.#leaseMs = leaseMs;
    this.#credentialMs = credentialMs;
    this.#confirmed = this.#admitted = this.#hello;
    this.#answers = [];
  }

  /** Notes that the answer to ping `n` is sent now. */
  answerSent(n: number): void {
    this.#answers.push({ n, at: now() });
  }

  /** The server has received the answer to ping `n`, and those before it. */
  answered(n: number): void {
    let confirmed: Answer | undefined;
    while (this.#answers[0] && this.#answers[0].n <= n) confirmed = this.#answers.shift();
    if (confirmed) this.#confirmed = confirmed.at;
  }

  /** Milliseconds until the deadline; not positive once it has passed, and also when no lease has begun. */
  remainingMs(): number {
    const since = this.#confirmed;
    return since ? Math.min(this.#leaseMs * SAFETY - elapsedMs(since), this.#credentialLeftMs()) : 0;
  }

  /**
   * What the deadline, once it has passed, takes the locks for: it is that of the lease, or the credential's
   * end.
   */
  loss(): 'expired' | 'denied' {
    return this.#credentialLeftMs() <= 0 ? 'denied' : 'expired';
  }

  #credentialLeftMs(): number {
    const since = this.#admitted;
    // A look at the clocks is not free, and most credentials have no end.
    if (!since || this.#credentialMs === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY;
    return this.#credentialMs - elapsedMs(since);
  }

  /**
   * The lease of the session that the latest hello has brought in place of this one's; it begins with its
   * welcome.
   */
  successor(): Lease {
    const next = new Lease();
    next.#hello = this.#hello;
    return next;
  }
}

/** This instant. */
export function now(): Mark {
  return { monotonicMs: performance.now(), wallMs: Date.now() };
}

/** How long ago that was, by whichever clock has advanced further. */
export function elapsedMs(since: Mark): number {
  return Math.max(performance.now() - since.monotonicMs, Date.now() - since.wallMs);
}
