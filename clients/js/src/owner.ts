import { addAbortAlgorithm } from './abort.js';
import { countOf, instantIfAny, instantOf, listOf, unusable } from './answers.js';
import { Backoff } from './backoff.js';
import { type Answer, CALL_OPTIONS, type Call, type Caller, type CallOptions, ofChange, ofQuestion } from './caller.js';
import { optional, toOptions, toWellFormed } from './checks.js';
import { elapsedMs, type Mark, SAFETY } from './lease.js';
import { UnknownOwnerError } from './problems.js';
import {
  type RecordGrant,
  type RecordKey,
  type RecordLock,
  type RecordTarget,
  type ReleaseTarget,
  readGrant,
  readLock,
  toKeys,
  toReleases,
  toTargets,
} from './records.js';
import { setQuietTimeout } from './timers.js';

/** The facts of an owner that the server has reported. */
export interface OwnerFacts {
  readonly id: string;
  readonly secret: string;
  readonly label: string;
  readonly ttlMs: number;
  readonly expiresAt: Date;
  /** When it ends however often it is renewed, by the server's clock. */
  readonly endsAt: Date | undefined;
  /** After how many milliseconds it ends however often it is renewed. */
  readonly longestMs: number;
  /** From when on these lengths count at the latest. */
  readonly countsFrom: Mark;
}

/** What a release depends on. */
export interface ReleaseOptions extends CallOptions {
  /** Nothing is released unless the owner holds all of these: those under which a step has worked. */
  holding?: readonly ReleaseTarget[] | undefined;
}

const RELEASE = { holding: optional(toReleases), ...CALL_OPTIONS };
const RELEASE_ALL = { sparing: optional(toKeys), ...RELEASE };
const LOCK = { metadata: optional(toWellFormed), ...CALL_OPTIONS };

/** How often an owner is renewed within its TTL. */
const BEATS = 3;
/** How long one heartbeat may take. */
const BEAT_TIMEOUT_MS = 10_000;

/**
 * Who holds offline locks: a user's session, or one business transaction. It lives on the server until
 * {@link end}, or until nothing is heard of it for its TTL; every successful call of it counts, readings
 * included, and so do the heartbeats that it sends by itself while this object's client is open.
 *
 * Heartbeats alone guard nothing, since a page may be frozen and a network fail: {@link signal} aborts by the
 * owner's own deadline, which each call checks too, and the fencing token of a lock lets the record itself
 * refuse what comes too late.
 */
export class Owner {
  readonly #caller: Caller;
  readonly #facts: OwnerFacts;
  readonly #beats: boolean;
  readonly #backoff = new Backoff();
  readonly #controller = new AbortController();
  /** When the latest call was sent that has succeeded. */
  #renewedAt: Mark;
  #expiresAt: Date;
  /** By the monotonic clock. */
  #nextBeatMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #forgetClient: (() => void) | undefined;
  /** Why no more calls are made, once none are. */
  #why: unknown;

  /** @internal */
  constructor(caller: Caller, facts: OwnerFacts, beats: boolean) {
    this.#caller = caller;
    this.#facts = facts;
    this.#beats = beats;
    this.#renewedAt = facts.countsFrom;
    this.#expiresAt = facts.expiresAt;
    this.#nextBeatMs = performance.now() + facts.ttlMs / BEATS;
    if (caller.closed.aborted) {
      this.#lose(caller.closed.reason);
      return;
    }
    this.#forgetClient = addAbortAlgorithm(caller.closed, () => this.#lose(caller.closed.reason));
    this.#schedule();
  }

  get id(): string {
    return this.#facts.id;
  }

  /**
   * What every call of this owner proves itself by. Who has it can release the owner's locks: keep it from
   * logs and from other users.
   */
  get secret(): string {
    return this.#facts.secret;
  }

  get label(): string {
    return this.#facts.label;
  }

  get ttlMs(): number {
    return this.#facts.ttlMs;
  }

  /** When the owner ends unless it is renewed, by the server's clock. */
  get expiresAt(): Date {
    return new Date(this.#expiresAt);
  }

  /**
   * Aborts when the locks can no longer be relied on: with an UnknownOwnerError if the server says so or the
   * owner's own deadline, its TTL less 10 %, has passed, or with the AbortError of a closed client.
   * {@link end} does not abort it.
   */
  get signal(): AbortSignal {
    this.#isOver();
    return this.#controller.signal;
  }

  /**
   * Locks all of these records, at most 60, or none. What the owner holds already stays as it is; its own
   * read lock becomes a write lock if it is the only reader. Nothing waits.
   *
   * Rejects with a LockedError if others hold one of them, and if the timeout did not suffice with a
   * RecoveringError or UnavailableError, or an OutcomeUnknownError where it may have happened.
   */
  async lock(
    targets: readonly RecordTarget[],
    options: CallOptions & { metadata?: string | undefined } = {},
  ): Promise<RecordGrant[]> {
    const locks = toTargets('locks', targets);
    const { metadata, ...rest } = toOptions(options, LOCK);
    const body = { owner: this.id, locks, metadata };
    return this.#call({ method: 'POST', path: 'locks', body, again: 'withKey' }, rest, (answer) => {
      const grants = listOf(answer.body, 'locks').map(readGrant);
      // In the order asked.
      const areThose =
        grants.length === locks.length &&
        grants.every(({ kind, id }, i) => kind === locks[i]?.kind && id === locks[i]?.id);
      if (!areThose) throw unusable('locks');
      return grants;
    });
  }

  /**
   * Releases these locks, at most 1000; what is not held, or not by this grant, is passed over. Resolves to
   * how many were released.
   *
   * If an answer is lost, the call is made again if all of these have tokens, and what is gone by then counts
   * as released. Without them it rejects with an OutcomeUnknownError, as the next attempt could release what
   * another step of the owner has locked again. Rejects with a LocksLostError if the owner does not hold all
   * that is in `holding`.
   */
  async unlock(targets: readonly (ReleaseTarget | RecordGrant)[], options: ReleaseOptions = {}): Promise<number> {
    const locks = toReleases('locks', targets);
    const { holding, ...rest } = toOptions(options, RELEASE);
    if (locks.length === 0 && holding === undefined) return 0;
    const body = { owner: this.id, locks, holding };
    const again = locks.every(({ fencingToken }) => fencingToken !== undefined) ? 'withKey' : 'never';
    return this.#call({ method: 'POST', path: 'locks/release', body, again }, rest, (answer) => {
      const released = countOf(answer.body, 'released');
      return answer.isRepeated ? locks.length : released;
    });
  }

  /**
   * Releases all locks of the owner but those that are spared. Resolves to how many were released. Rejects as
   * {@link unlock} does for locks without tokens.
   */
  async unlockAll(options: ReleaseOptions & { sparing?: readonly RecordKey[] | undefined } = {}): Promise<number> {
    const { sparing, holding, ...rest } = toOptions(options, RELEASE_ALL);
    const isAll = sparing === undefined || sparing.length === 0;
    const body = { owner: this.id, all: true, sparing: isAll ? undefined : sparing, holding };
    const call = { method: 'POST', path: 'locks/release', body, again: 'never' } as const;
    return this.#call(call, rest, (answer) => countOf(answer.body, 'released'));
  }

  /** The locks that the owner holds now. */
  async locks(options: CallOptions = {}): Promise<RecordLock[]> {
    const call = { method: 'GET', path: this.#path, again: 'harmless' } as const;
    return this.#call(call, toOptions(options, CALL_OPTIONS), ({ body }) => listOf(body, 'locks').map(readLock));
  }

  /**
   * Notifies the server now that this owner lives on. Heartbeats do so by themselves unless they were
   * declined.
   */
  async heartbeat(options: CallOptions = {}): Promise<void> {
    const call = { method: 'POST', path: `${this.#path}/heartbeat`, again: 'harmless' } as const;
    await this.#call(call, toOptions(options, CALL_OPTIONS), (answer) => instantOf(answer.body, 'expiresAt'));
  }

  /**
   * Ends the owner and releases all its locks. Resolves also if it has ended already. Nothing more can be
   * done with this object, even if the call fails; then the server ends the owner by its TTL. An option that
   * is refused, or a signal that is aborted already, ends nothing.
   */
  async end(options: CallOptions = {}): Promise<void> {
    const checked = toOptions(options, CALL_OPTIONS);
    checked.signal?.throwIfAborted();
    this.#stop(new UnknownOwnerError('unknown_owner', 0, 'The owner was ended.'));
    try {
      const call = { method: 'DELETE', path: this.#path, secret: this.secret, again: 'harmless' } as const;
      const answer = await this.#caller.call(call, checked);
      ofChange(() => {
        if (answer.status !== 204) throw unusable('the end of the owner');
      });
    } catch (error) {
      if (!(error instanceof UnknownOwnerError)) throw error;
    }
  }

  get #path(): string {
    return `owners/${encodeURIComponent(this.id)}`;
  }

  /** Makes a call, and reads its answer: one that is not as promised has renewed nothing. */
  async #call<T>(call: Call, options: CallOptions, read: (answer: Answer) => T): Promise<T> {
    if (this.#isOver()) throw this.#why;
    try {
      const answer = await this.#caller.call({ ...call, secret: this.secret }, options);
      const reading = call.method === 'GET' ? ofQuestion : ofChange;
      const result = reading(() => {
        const result = read(answer);
        this.#renewed(answer);
        return result;
      });
      if (this.#isOver()) throw this.#why;
      return result;
    } catch (error) {
      if (error instanceof UnknownOwnerError) this.#lose(error);
      throw error;
    }
  }

  /**
   * Every success has renewed the owner. An answer may repeat that of an earlier attempt, so what counts is
   * when the first of them was sent.
   */
  #renewed({ body, sentAt }: Answer): void {
    const agoMs = elapsedMs(this.#renewedAt);
    const laterMs = agoMs - elapsedMs(sentAt);
    if (laterMs < 0) return;
    const expiresAt = instantIfAny(body, 'expiresAt');
    this.#renewedAt = sentAt;
    // What the server does not say is as much later as the call was.
    this.#expiresAt = expiresAt ?? new Date(this.#expiresAt.getTime() + laterMs);
    const { endsAt } = this.#facts;
    if (endsAt && this.#expiresAt > endsAt) this.#expiresAt = endsAt;
  }

  /** Whether no more calls are to be made; ends the owner here if its deadline has passed. */
  #isOver(): boolean {
    if (!this.#why && this.#remainingMs() <= 0) {
      this.#lose(new UnknownOwnerError('unknown_owner', 0, 'The owner was not renewed in time.'));
    }
    return this.#why !== undefined;
  }

  #remainingMs(): number {
    const untilExpiry = this.#facts.ttlMs * SAFETY - elapsedMs(this.#renewedAt);
    return Math.min(untilExpiry, this.#facts.longestMs - elapsedMs(this.#facts.countsFrom));
  }

  #lose(why: unknown): void {
    if (this.#why) return;
    this.#stop(why);
    this.#controller.abort(why);
  }

  #stop(why: unknown): void {
    this.#why ??= why;
    clearTimeout(this.#timer);
    this.#forgetClient?.();
  }

  /** Looks again at the deadline or when a heartbeat is due; one timer for both. */
  #schedule(): void {
    clearTimeout(this.#timer);
    if (this.#why) return;
    const beatMs = this.#beats ? this.#nextBeatMs - performance.now() : Infinity;
    const nextMs = Math.min(this.#remainingMs(), beatMs);
    this.#timer = setQuietTimeout(() => this.#look(), Math.max(1, nextMs));
  }

  #look(): void {
    if (this.#isOver()) return;
    if (this.#beats && performance.now() >= this.#nextBeatMs) this.#beat();
    this.#schedule();
  }

  /** Renews the owner unless another call has done so of late. What fails is tried again until the deadline. */
  #beat(): void {
    const intervalMs = this.#facts.ttlMs / BEATS;
    const dueMs = intervalMs - elapsedMs(this.#renewedAt);
    if (dueMs > 0) {
      this.#nextBeatMs = performance.now() + dueMs;
      return;
    }
    this.#nextBeatMs = Infinity;
    const next = (pauseMs: number) => {
      this.#nextBeatMs = performance.now() + pauseMs;
      this.#schedule();
    };
    this.heartbeat({ timeout: BEAT_TIMEOUT_MS }).then(
      () => {
        this.#backoff.reset();
        next(intervalMs);
      },
      () => next(Math.min(intervalMs, this.#backoff.nextMs())),
    );
  }
}
