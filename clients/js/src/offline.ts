import { countOf, instantIfAny, instantOf, listOf, secretOf, textOf } from './answers.js';
import { CALL_OPTIONS, type Caller, type CallOptions, ofChange, ofQuestion } from './caller.js';
import { broken, optional, toBoolean, toNumber, toOptions, toSecret, toText, toWellFormed } from './checks.js';
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

const LOCKS = {
  kind: optional(toText),
  owner: optional(toText),
  prefix: optional(toText),
  ...CALL_OPTIONS,
};
const RESUME = { heartbeats: optional(toBoolean), ...CALL_OPTIONS };
const OPEN = {
  label: toWellFormed,
  ttlMs: optional(toNumber),
  maxMs: optional(toNumber),
  metadata: optional(toWellFormed),
  ...RESUME,
};

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
   * Rejects with a TypeError for an option that is not understood, as all of these methods do, or with a
   * {@link ProblemError}: of class InvalidError for an option that breaks a rule of the server,
   * UnavailableError or UnreachableError if the timeout did not suffice, or OutcomeUnknownError where it may
   * have happened.
   */
  async open(options: OwnerOptions): Promise<Owner> {
    const { label, ttlMs, maxMs, metadata, heartbeats = true, ...rest } = toOptions(options, OPEN);
    const call = { method: 'POST', path: 'owners', body: { label, ttlMs, maxMs, metadata }, again: 'withKey' } as const;
    const { body, sentAt } = await this.#caller.call(call, rest);
    const facts = ofChange(() => {
      const identity = { id: textOf(body, 'owner'), secret: secretOf(body, 'ownerSecret') };
      return { ...identity, ...factsOf(body), longestMs: maxMs ?? Infinity, countsFrom: sentAt };
    });
    return new Owner(this.#caller, facts, heartbeats);
  }

  /**
   * Takes up an owner again, such as after a reload of the page. Its locks are as they were: see
   * {@link Owner.locks}.
   *
   * Rejects with an UnknownOwnerError if it has ended, or an UnauthorizedError if the secret is not its.
   */
  async resume(id: string, secret: string, options: ResumeOptions = {}): Promise<Owner> {
    const path = `owners/${toOwnerId('id', id)}`;
    toSecret('secret', secret);
    const { heartbeats = true, ...rest } = toOptions(options, RESUME);
    const beat = { method: 'POST', path: `${path}/heartbeat`, secret, again: 'harmless' } as const;
    const { body: beaten, sentAt } = await this.#caller.call(beat, rest);
    ofChange(() => instantOf(beaten, 'expiresAt'));
    const { body } = await this.#caller.call({ method: 'GET', path, secret, again: 'harmless' }, rest);
    const facts = ofQuestion(() => {
      return { id, secret, ...factsOf(body), longestMs: longestMs(body, sentAt), countsFrom: sentAt };
    });
    return new Owner(this.#caller, facts, heartbeats);
  }

  /**
   * The offline locks of the bucket, of all owners, in the order of their names. They are fetched page
   * by page, so that together they are no consistent cut: use them to show who edits what, and decide nothing
   * by them.
   */
  async *locks(options: LocksFilter = {}): AsyncGenerator<RecordLock, void, undefined> {
    const { kind, owner, prefix, ...rest } = toOptions(options, LOCKS);
    const filter = Object.entries({ kind, owner, prefix }).flatMap(([key, value]) =>
      value === undefined ? [] : [`${key}=${checkedForUrl(key, value)}`],
    );
    let cursor: string | undefined;
    do {
      const query = cursor === undefined ? filter : [...filter, `cursor=${encodeURIComponent(cursor)}`];
      const path = query.length === 0 ? 'locks' : `locks?${query.join('&')}`;
      const { body } = await this.#caller.call({ method: 'GET', path, again: 'harmless' }, rest);
      const page = ofQuestion(() => {
        const next = body.next == null ? undefined : textOf(body, 'next');
        return { locks: listOf(body, 'locks').map(readLock), next };
      });
      yield* page.locks;
      cursor = page.next;
    } while (cursor !== undefined);
  }
}

/** The id of an owner. Another text would make another address of the call. */
function toOwnerId(field: string, value: unknown): string {
  const id = toText(field, value);
  if (/^\d{1,16}$/.test(id)) return id;
  throw broken(field, id, 'an id of 1 to 16 digits');
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
