// Locks over a restart of the server (PROTOCOL.md section 10). What becomes of a lock that is held when the
// connection is lost:
//
// | what happens                                              | the lock is                                          |
// |-----------------------------------------------------------|------------------------------------------------------|
// | the session is resumed                                    | held; nothing to reclaim                             |
// | a fresh session, new epoch, which reclaims                | reclaimed; held under the former session's deadline  |
// | a fresh session of the same epoch, or without `reclaims`  | lost: terminated                                     |
// | the same, and the lock came without a ticket              | lost: terminated                                     |
// | its loss has come but waits for its task                  | lost for the reason that was sent                    |
// | its grant has come but waits for its task                 | not held yet: its request is asked anew              |
// | its callback ends while the server is away                | over; never reclaimed                                |
// | its callback ends before the answer                       | over; a release follows the reclaim                  |
// | the deadline passes before the reclaim is sent            | lost with it; not reclaimed                          |
// | the deadline passes before the answer                     | lost with it; a grant that still comes is released   |
// | `granted` with the token of old                           | held in the new session; the new ticket counts       |
// | `granted` with another token                              | lost: terminated, as the server broke the protocol   |
// | `lost`, also after the grant, or `error`                  | lost: superseded                                     |
// | the connection breaks before the answer, and is resumed   | reclaimed again, as every unacknowledged frame       |
// | the server restarts again before the answer               | reclaimed with the same ticket and the same deadline |
// | the server restarts again after it                        | reclaimed with the new ticket and the new deadline   |
// | the new session ends before the answer (its lease, a      | lost, as with every session                          |
// | close, the back/forward cache, an operator)               |                                                      |
//
// What is pending is asked after the reclaims, in its order; a steal that was under way ends with "outcome
// unknown".

import type { LossReason } from './errors.js';
import type { Lease } from './lease.js';
import { setQuietTimeout } from './timers.js';

interface Group<L> {
  readonly former: Lease;
  readonly locks: Set<L>;
}

/**
 * The locks whose reclaims are not answered yet, each held under the lease of the session in which it was
 * granted.
 */
export class Reclaims<L> {
  readonly #expire: (lost: ReadonlyMap<L, LossReason>) => void;
  #groups: Group<L>[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

  /**
   * `expire` receives all locks whose deadline has passed, each with the reason of its loss; they are no
   * longer in here.
   */
  constructor(expire: (lost: ReadonlyMap<L, LossReason>) => void) {
    this.#expire = expire;
  }

  /**
   * Adds locks of a session that is gone. Those that are in here already stay under the lease of an earlier
   * one.
   */
  add(locks: Iterable<L>, former: Lease): void {
    const added = new Set<L>();
    for (const lock of locks) if (!this.has(lock)) added.add(lock);
    this.#groups.push({ former, locks: added });
    this.#watch();
  }

  has(lock: L): boolean {
    return this.#groups.some((group) => group.locks.has(lock));
  }

  /** The reclaim of this lock is answered, or the lock is over. */
  delete(lock: L): void {
    for (const group of this.#groups) group.locks.delete(lock);
    if (this.#groups.some(({ locks }) => locks.size === 0)) this.#watch();
  }

  /** Expires the locks whose deadline has passed. */
  check(): void {
    const isOver = ({ former }: Group<L>) => former.remainingMs() <= 0;
    if (!this.#groups.some(isOver)) return;
    const over = this.#groups.filter(isOver);
    this.#groups = this.#groups.filter((group) => !over.includes(group));
    this.#watch();
    const lost = new Map<L, LossReason>();
    for (const { locks, former } of over) for (const lock of locks) lost.set(lock, former.loss());
    this.#expire(lost);
  }

  /** Checks again when the earliest deadline passes. */
  #watch(): void {
    clearTimeout(this.#timer);
    this.#groups = this.#groups.filter(({ locks }) => locks.size > 0);
    if (this.#groups.length === 0) return;
    const nextMs = Math.min(...this.#groups.map(({ former }) => former.remainingMs()));
    this.#timer = setQuietTimeout(() => this.#look(), Math.max(1, nextMs));
  }

  #look(): void {
    this.check();
    this.#watch();
  }
}
