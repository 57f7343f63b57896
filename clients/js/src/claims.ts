import { flagOf, instantOf, secretOf, textOf, tokenOf, unusable } from './answers.js';
import { CALL_OPTIONS, type Caller, type CallOptions, ofChange, ofQuestion } from './caller.js';
import { optional, toInteger, toNumber, toOptions, toSecret, toText, toWellFormed } from './checks.js';
import { type ProblemBody, ProblemError } from './problems.js';
import { checkedForUrl } from './url.js';

/** What a new claim is like. */
export interface ClaimOptions extends CallOptions {
  /** The claimant, as others see it when they are refused. At most 256 bytes of UTF-8. */
  claimant: string;
  /** Milliseconds after which the claim ends unless it is renewed. Default: that of the server, 60 s. */
  ttlMs?: number | undefined;
  /** A text that others see beside the claimant. */
  metadata?: string | undefined;
}

/** A claim that was made final. */
export interface Assignment {
  readonly resource: string;
  readonly claimant: string;
  readonly assignedAt: Date;
  /** That of the claim. */
  readonly fencingToken: number;
}

const CLAIM = {
  claimant: toWellFormed,
  ttlMs: optional(toNumber),
  metadata: optional(toWellFormed),
  ...CALL_OPTIONS,
};
const UNASSIGN = { fencingToken: optional(toInteger), ...CALL_OPTIONS };

/** Reservations for a time, to be made final by a claimant that still has them: reserve, prepare, finalize. */
export class Claims {
  readonly #caller: Caller;

  /** @internal */
  constructor(caller: Caller) {
    this.#caller = caller;
  }

  /**
   * Claims a resource, which is a name of the bucket. Nothing waits.
   *
   * Rejects with a ClaimedError, BusyError or AlreadyAssignedError if the resource is not to be had, and with
   * RecoveringError or UnavailableError if the timeout did not suffice, or an OutcomeUnknownError where it
   * may have happened. A claim whose answer is lost with the call ends by its TTL.
   */
  async claim(resource: string, options: ClaimOptions): Promise<Claim> {
    const name = toText('resource', resource);
    const { claimant, ttlMs, metadata, ...rest } = toOptions(options, CLAIM);
    const body = { resource: name, claimant, ttlMs, metadata };
    const answer = await this.#caller.call({ method: 'POST', path: 'claims', body, again: 'withKey' }, rest);
    return ofChange(() => new Claim(this, answer.body));
  }

  /**
   * Lets the TTL of a claim run anew. Resolves to when the claim ends now. Rejects with ClaimLostError or
   * ClaimExpiredError.
   */
  async renew(resource: string, token: string, options: CallOptions = {}): Promise<Date> {
    const { body, rest } = proven(resource, token, options);
    const answer = await this.#caller.call({ method: 'POST', path: 'claims/renew', body, again: 'harmless' }, rest);
    return ofChange(() => instantOf(answer.body, 'expiresAt'));
  }

  /**
   * Gives a claim up, so that the resource is free at once. Rejects with ClaimLostError or ClaimExpiredError
   * if it had ended before.
   */
  async release(resource: string, token: string, options: CallOptions = {}): Promise<void> {
    const { body, rest } = proven(resource, token, options);
    const doneBy = ['claim_expired', 'claim_lost'];
    const call = { method: 'POST', path: 'claims/release', body, again: 'withKey', doneBy } as const;
    const answer = await this.#caller.call(call, rest);
    ofChange(() => {
      if (answer.status !== 0 && !flagOf(answer.body, 'released')) throw unusable('released');
    });
  }

  /**
   * Makes a claim final: only if it still stands, and in one step. Doing it again gives the same answer until
   * the resource is unassigned.
   *
   * Rejects with a ClaimLostError if another claim stands, or a ClaimExpiredError if none does; then nothing
   * has changed. After an answer that was lost the claim may also have been made final, and the assignment
   * been taken back since.
   */
  async finalize(resource: string, token: string, options: CallOptions = {}): Promise<Assignment> {
    const { body, rest } = proven(resource, token, options);
    const answer = await this.#caller.call({ method: 'POST', path: 'claims/finalize', body, again: 'withKey' }, rest);
    return ofChange(() => readAssignment(answer.body));
  }

  /**
   * The assignment of a resource; null if there is none. A name with a lone surrogate cannot be asked for: a
   * TypeError.
   */
  async assignment(resource: string, options: CallOptions = {}): Promise<Assignment | null> {
    const path = `assignments?resource=${checkedForUrl('resource', resource)}`;
    const checked = toOptions(options, CALL_OPTIONS);
    try {
      const { body } = await this.#caller.call({ method: 'GET', path, again: 'harmless' }, checked);
      return ofQuestion(() => readAssignment(body));
    } catch (error) {
      if (error instanceof ProblemError && error.code === 'not_found') return null;
      throw error;
    }
  }

  /**
   * Takes an assignment back, so that the resource can be claimed again; with a token only that one. Without
   * effect if there is none.
   *
   * Without a token it is not tried again once it may have been done: it rejects with an OutcomeUnknownError,
   * as the next attempt could take back the assignment of another claimant.
   */
  async unassign(resource: string, options: CallOptions & { fencingToken?: number | undefined } = {}): Promise<void> {
    const name = checkedForUrl('resource', resource);
    const { fencingToken, ...rest } = toOptions(options, UNASSIGN);
    const only = fencingToken === undefined ? '' : `&fencingToken=${fencingToken}`;
    const path = `assignments?resource=${name}${only}`;
    // Done twice, it would take back an assignment to another claimant in between, and a server that was
    // started since the first attempt knows no keys.
    const again = fencingToken === undefined ? 'never' : 'withKey';
    const answer = await this.#caller.call({ method: 'DELETE', path, again }, rest);
    ofChange(() => flagOf(answer.body, 'unassigned'));
  }
}

/**
 * A claim as it was when it was made or last renewed. Having it proves nothing later: only {@link finalize}
 * shows whether it still stands, by asking the server.
 */
export class Claim {
  readonly #claims: Claims;
  readonly #resource: string;
  readonly #claimant: string;
  readonly #token: string;
  readonly #fencingToken: number;
  #expiresAt: Date;

  /** @internal */
  constructor(claims: Claims, body: ProblemBody) {
    this.#claims = claims;
    this.#resource = textOf(body, 'resource');
    this.#claimant = textOf(body, 'claimant');
    this.#token = secretOf(body, 'token');
    this.#fencingToken = tokenOf(body);
    this.#expiresAt = instantOf(body, 'expiresAt');
  }

  get resource(): string {
    return this.#resource;
  }

  get claimant(): string {
    return this.#claimant;
  }

  /** What proves the claim, and alone gives the right to finalize it: keep it from logs and from other users. */
  get token(): string {
    return this.#token;
  }

  /** An integer that grows over the grants of the bucket. */
  get fencingToken(): number {
    return this.#fencingToken;
  }

  /** When the claim ends unless it is renewed, by the server's clock. */
  get expiresAt(): Date {
    return new Date(this.#expiresAt);
  }

  /** As {@link Claims.renew}. */
  async renew(options: CallOptions = {}): Promise<void> {
    this.#expiresAt = await this.#claims.renew(this.#resource, this.#token, options);
  }

  /** As {@link Claims.release}. */
  release(options: CallOptions = {}): Promise<void> {
    return this.#claims.release(this.#resource, this.#token, options);
  }

  /** As {@link Claims.finalize}. */
  finalize(options: CallOptions = {}): Promise<Assignment> {
    return this.#claims.finalize(this.#resource, this.#token, options);
  }
}

/** The body of a call that proves its claim by the token, and the options of the call. */
function proven(resource: string, token: string, options: CallOptions) {
  const body = { resource: toText('resource', resource), token: toSecret('token', token) };
  return { body, rest: toOptions(options, CALL_OPTIONS) };
}

function readAssignment(raw: ProblemBody): Assignment {
  return {
    resource: textOf(raw, 'resource'),
    claimant: textOf(raw, 'claimant'),
    assignedAt: instantOf(raw, 'assignedAt'),
    fencingToken: tokenOf(raw),
  };
}
