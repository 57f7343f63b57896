import { countOf, instantIfAny, instantOf, listOf, textOf } from './answers.js';
import { type Caller, type CallOptions, ofChange } from './caller.js';
import { toFlag, toWellFormed } from './checks.js';
import type { Mark } from './lease.js';
import { Owner, type OwnerFacts } from './owner.js';
import type { ProblemBody } from './problems.js';
import { type RecordLock, readLock } from './records.js';
import { checkedForUrl } from './url.js';

/** Which locks to list. */
export interface LocksFilter extends CallOptions {
  /** Of records of this kind. */
  kind?: string | undefined;
  /** Of the owner with this id. */
  owner?: string | undefined;
  /** Whose {@link RecordLock.name} begins like this. */
  prefix?: string | undefined;
}

/** What a new owner is like. */
export interface OwnerOptions extends CallOptions {
  /** The owner, as others see it when they are refused. At most 256 bytes of UTF-8. */
  label: string;
  /**
   * Milliseconds without any call after which the owner and its locks end. Default: that of the server, 20
   * minutes.
   */
  ttlMs?: number | undefined;
  /** Milliseconds after which the owner ends in any case. */
  maxMs?: number | undefined;
  /** A text that others see beside the label. */
  metadata?: string | undefined;
  /** Whether to notify the server from time to time that this owner lives on. Default true. */
  heartbeats?: boolean | undefined;
}

/** Of an owner that was opened before. */
export interface ResumeOptions extends CallOptions {
  /** As in {@link OwnerOptions}. */
  heartbeats?: boolean | undefined;
}

/**
 * Offline locks: records that a business transaction keeps to itself over many requests, refused at once to
 * anyone else. They are durable: they outlive this context, and a restart of the server.
 */
export class Offline {
  readonly #caller: Caller;

  /** @internal */
  constructor(caller: Caller) {
    this.#caller = caller;
  }

  /**
   * Begins an owner of locks, such as a user's session. Keep its `id` and `secret` to {@link resume} it.
   *
   * Rejects with a {@link ProblemError}: of class InvalidError for an option that breaks a rule,
   * UnavailableError or UnreachableError if the timeout did not suffice, or OutcomeUnknownError where it may
   * have happened.
   */
  async open({ label, ttlMs, maxMs, metadata, heartbeats, ...options }: OwnerOptions): Promise<Owner> {
    const beats = toFlag('heartbeats', heartbeats, true);
    const call = { method: 'POST', path: 'owners', body: { label, ttlMs, maxMs, metadata }, again: 'withKey' } as const;
    const { body, sentAt } = await this.#caller.call(call, options);
    const facts = ofChange(() => {
      const identity = { id: textOf(body, 'owner'), secret: textOf(body, 'ownerSecret') };
      return { ...identity, ...factsOf(body), longestMs: maxMs ?? Infinity, countsFrom: sentAt };
    });
    return new Owner(this.#caller, facts, beats);
  }

  /**
   * Takes up an owner again, such as after a reload of the page. Its locks are as they were: see
   * {@link Owner.locks}.
   *
   * Rejects with an UnknownOwnerError if it has ended, or an UnauthorizedError if the secret is not its.
   */
  async resume(id: string, secret: string, { heartbeats, ...options }: ResumeOptions = {}): Promise<Owner> {
    const beats = toFlag('heartbeats', heartbeats, true);
    toWellFormed('secret', secret);
    const path = `owners/${checkedForUrl('id', id)}`;
    const beat = { method: 'POST', path: `${path}/heartbeat`, secret, again: 'harmless' } as const;
    const { sentAt } = await this.#caller.call(beat, options);
    const { body } = await this.#caller.call({ method: 'GET', path, secret, again: 'harmless' }, options);
    const facts = { id, secret, ...factsOf(body), longestMs: longestMs(body, sentAt), countsFrom: sentAt };
    return new Owner(this.#caller, facts, beats);
  }

  /**
   * The offline locks of the bucket, of all owners, in the order of their names. They are fetched page
   * by page, so that together they are no consistent cut: use them to show who edits what, and decide nothing
   * by them.
   */
  async *locks({ kind, owner, prefix, ...options }: LocksFilter = {}): AsyncGenerator<RecordLock, void, undefined> {
    const filter = Object.entries({ kind, owner, prefix }).flatMap(([key, value]) =>
      value === undefined ? [] : [`${key}=${checkedForUrl(key, value)}`],
    );
    let cursor: string | undefined;
    do {
      const query = cursor === undefined ? filter : [...filter, `cursor=${encodeURIComponent(cursor)}`];
      const path = query.length === 0 ? 'locks' : `locks?${query.join('&')}`;
      const { body } = await this.#caller.call({ method: 'GET', path, again: 'harmless' }, options);
      yield* listOf(body, 'locks').map(readLock);
      cursor = body.next == null ? undefined : textOf(body, 'next');
    } while (cursor !== undefined);
  }
}

function factsOf(body: ProblemBody): Pick<OwnerFacts, 'label' | 'ttlMs' | 'expiresAt' | 'endsAt'> {
  return {
    label: textOf(body, 'label'),
    ttlMs: countOf(body, 'ttlMs'),
    expiresAt: instantOf(body, 'expiresAt'),
    endsAt: instantIfAny(body, 'endsAt'),
  };
}

/** After how many milliseconds from the sending of the call the owner ends however often it is renewed. */
function longestMs(body: ProblemBody, sentAt: Mark): number {
  const endsAt = instantIfAny(body, 'endsAt');
  if (!endsAt) return Infinity;
  const beyondTtlMs = endsAt.getTime() - instantOf(body, 'expiresAt').getTime();
  // Where the end is nearer than the TTL the answer does not show the server's clock, and only ours is left.
  return beyondTtlMs > 0 ? beyondTtlMs + countOf(body, 'ttlMs') : endsAt.getTime() - sentAt.wallMs;
}
