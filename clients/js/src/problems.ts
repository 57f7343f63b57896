// The errors of the HTTP API. Each code that a caller may want to act on has a class of its own; any other is
// a plain ProblemError.

import { countIfAny, instantIfAny, instantOf, textOf, wordOf } from './answers.js';

/** Who holds a name. */
export interface Holder {
  /** By a Web Lock, an offline lock or a claim. */
  readonly kind: 'web' | 'offline' | 'claim';
  /** The client id, the owner's label or the claimant. */
  readonly label: string;
  /** The id of the owner of an offline lock. */
  readonly owner?: string;
  readonly mode: 'exclusive' | 'shared';
  readonly since: Date;
  /** When the hold ends unless it is renewed. */
  readonly expiresAt?: Date;
  readonly metadata?: string;
}

/** A record that could not be locked, and who stands in the way. */
export interface Conflict {
  readonly kind: string;
  readonly id: string;
  /** The first of those who hold it. */
  readonly holders: Holder[];
  /** How many requests wait for it. */
  readonly queued: number;
}

/** What a problem says, as it came (RFC 9457). */
export type ProblemBody = Readonly<Record<string, unknown>>;

/** A call was answered with a problem, or not at all. */
export class ProblemError extends Error {
  /** What went wrong, for programs: `locked`, `claim_lost`, … */
  readonly code: string;
  /** The HTTP status; 0 if no server has answered. */
  readonly status: number;

  constructor(code: string, status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.status = status;
  }
}

/** The server cannot be reached. The call has had no effect. */
export class UnreachableError extends ProblemError {}

/**
 * Whether the call has had an effect is unknown: its answer was lost, or the server lost its store before it
 * knew. The call was tried again for its timeout if that does no harm. What the server holds says what has
 * happened.
 */
export class OutcomeUnknownError extends ProblemError {
  /** After how many milliseconds the same call may be made again, if the server says so. */
  readonly retryAfterMs: number | undefined;

  constructor(code: string, status: number, message: string, retryAfterMs?: number, options?: ErrorOptions) {
    super(code, status, message, options);
    this.retryAfterMs = retryAfterMs;
  }
}

/** An argument breaks a rule of the server. */
export class InvalidError extends ProblemError {
  readonly field: string | undefined;
  readonly value: string | undefined;
  readonly rule: string | undefined;

  constructor(code: string, status: number, message: string, body: ProblemBody) {
    super(code, status, message);
    this.field = optionalText(body.field);
    this.value = optionalText(body.value);
    this.rule = optionalText(body.rule);
  }
}

/** Others hold a record that was to be locked; nothing was locked. */
export class LockedError extends ProblemError {
  readonly conflicts: Conflict[];

  constructor(code: string, status: number, message: string, body: ProblemBody) {
    super(code, status, message);
    this.conflicts = list(body.conflicts).map((conflict) => ({
      kind: textOf(conflict, 'kind'),
      id: textOf(conflict, 'id'),
      holders: list(conflict.holders).map(readHolder),
      queued: countIfAny(conflict, 'queued') ?? 0,
    }));
  }

  /** Those who hold any of the records. */
  get holders(): Holder[] {
    return this.conflicts.flatMap(({ holders }) => holders);
  }
}

/** Another claim stands on the resource. */
export class ClaimedError extends ProblemError {
  /** Who claims it. */
  readonly holder: Holder | undefined;
  /** When that claim ends unless it is renewed. */
  readonly expiresAt: Date | undefined;

  constructor(code: string, status: number, message: string, body: ProblemBody) {
    super(code, status, message);
    this.holder = list(body.holders).map(readHolder)[0];
    this.expiresAt = instantIfAny(body, 'expiresAt') ?? this.holder?.expiresAt;
  }
}

/** A Web Lock or an offline lock holds the name of the resource, or a request waits for it. */
export class BusyError extends ProblemError {
  readonly holders: Holder[];
  /** How many requests wait for it. */
  readonly queued: number;

  constructor(code: string, status: number, message: string, body: ProblemBody) {
    super(code, status, message);
    this.holders = list(body.holders).map(readHolder);
    this.queued = countIfAny(body, 'queued') ?? 0;
  }
}

/** The resource has been assigned for good; it can be claimed again once it is unassigned. */
export class AlreadyAssignedError extends ProblemError {
  /** To whom it is assigned. */
  readonly claimant: string | undefined;

  constructor(code: string, status: number, message: string, body: ProblemBody) {
    super(code, status, message);
    this.claimant = claimantOf(body);
  }
}

/** Another claim stands, with another token, which is not touched, or has been made final. */
export class ClaimLostError extends ProblemError {
  /** To whom the resource is assigned, if the other claim was made final. */
  readonly claimant: string | undefined;

  constructor(code: string, status: number, message: string, body: ProblemBody) {
    super(code, status, message);
    this.claimant = claimantOf(body);
  }
}

function claimantOf({ assignment }: ProblemBody): string | undefined {
  return typeof assignment === 'object' && assignment !== null
    ? textOf(assignment as ProblemBody, 'claimant')
    : undefined;
}

/** No claim stands any more, nor was another made final: its time was over, or it was released. */
export class ClaimExpiredError extends ProblemError {}

/** A lock that is not its owner's any more. */
export interface LostLock {
  /** Of the record; empty if the lock is that of a name. */
  readonly kind: string;
  readonly id: string;
  /** The name of the lock, as others see it in the bucket. */
  readonly name: string;
}

/**
 * Locks under which a step has worked are not the owner's any more: they were stolen, or another step of the
 * owner has released them. Others may have changed what they guard. Nothing was released.
 */
export class LocksLostError extends ProblemError {
  readonly lost: LostLock[];

  constructor(code: string, status: number, message: string, body: ProblemBody) {
    super(code, status, message);
    this.lost = list(body.lost).map((lock) => ({
      kind: textOf(lock, 'kind'),
      id: textOf(lock, 'id'),
      name: textOf(lock, 'name'),
    }));
  }
}

/** The owner has ended, and its locks with it. */
export class UnknownOwnerError extends ProblemError {}

/** The secret is not that of the owner. */
export class UnauthorizedError extends ProblemError {}

/**
 * The server does not serve the call now: it cannot, or the tenant has asked for too much at once
 * (`rate_limited`).
 */
export class UnavailableError extends ProblemError {
  /** After how many milliseconds it makes sense to try again. */
  readonly retryAfterMs: number | undefined;

  constructor(code: string, status: number, message: string, retryAfterMs: number | undefined) {
    super(code, status, message);
    this.retryAfterMs = retryAfterMs;
  }
}

/** The server has been restarted and waits for the holders from before, so that no name gets two of them. */
export class RecoveringError extends UnavailableError {}

// Written out, since tools that shorten scripts may change the names of classes.
const NAMES = {
  ProblemError,
  UnreachableError,
  OutcomeUnknownError,
  InvalidError,
  LockedError,
  ClaimedError,
  BusyError,
  AlreadyAssignedError,
  ClaimLostError,
  ClaimExpiredError,
  LocksLostError,
  UnknownOwnerError,
  UnauthorizedError,
  UnavailableError,
  RecoveringError,
};
for (const [value, type] of Object.entries(NAMES)) {
  Object.defineProperty(type.prototype, 'name', { value, writable: true, configurable: true });
}

const CLASSES: Record<string, new (code: string, status: number, message: string, body: ProblemBody) => ProblemError> =
  {
    invalid: InvalidError,
    bad_request: InvalidError,
    locked: LockedError,
    claimed: ClaimedError,
    busy: BusyError,
    already_assigned: AlreadyAssignedError,
    claim_lost: ClaimLostError,
    claim_expired: ClaimExpiredError,
    lock_lost: LocksLostError,
    unknown_owner: UnknownOwnerError,
    unauthorized: UnauthorizedError,
  };

/**
 * Makes the error for an answer that is no success. `retryAfter` is the header of that name. Of a question no
 * outcome is unknown, as it changes nothing.
 */
export function problemError(
  status: number,
  body: ProblemBody,
  retryAfter: string | null,
  isQuestion: boolean,
): ProblemError {
  const code = optionalText(body.code) ?? `status_${status}`;
  const message =
    optionalText(body.detail) ??
    optionalText(body.title) ??
    `The answer has status ${status} and no reason of a lock server.`;
  const retryAfterMs = optionalNumber(body.retryAfterMs) ?? secondsToMs(retryAfter);
  if (!isQuestion && isUnknown(code, status)) return new OutcomeUnknownError(code, status, message, retryAfterMs);
  if (code === 'recovering') return new RecoveringError(code, status, message, retryAfterMs);
  if (code === 'rate_limited' || isOfProxy(status)) {
    return new UnavailableError(code, status, message, retryAfterMs);
  }
  return new (CLASSES[code] ?? ProblemError)(code, status, message, body);
}

/** Whether such an answer leaves open what has become of the call; a proxy does not know it, and has no code. */
function isUnknown(code: string, status: number): boolean {
  return code === 'outcome_unknown' || code === 'internal' || (code === `status_${status}` && isOfProxy(status));
}

function isOfProxy(status: number): boolean {
  return status === 502 || status === 503 || status === 504;
}

/** Reads a holder as the server reports it. */
export function readHolder(raw: ProblemBody): Holder {
  const expiresAt = instantIfAny(raw, 'expiresAt');
  return {
    kind: wordOf(raw, 'kind', ['web', 'offline', 'claim']),
    label: textOf(raw, 'label'),
    mode: wordOf(raw, 'mode', ['exclusive', 'shared']),
    since: instantOf(raw, 'since'),
    ...(typeof raw.owner === 'string' && { owner: raw.owner }),
    ...(expiresAt && { expiresAt }),
    ...(typeof raw.metadata === 'string' && { metadata: raw.metadata }),
  };
}

function list(value: unknown): ProblemBody[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'object' && item !== null) : [];
}

function optionalText(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function optionalNumber(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 ? value : undefined;
}

/** Retry-After in its form of seconds. */
function secondsToMs(header: string | null): number | undefined {
  return header !== null && /^\d+$/.test(header) ? Number(header) * 1_000 : undefined;
}
