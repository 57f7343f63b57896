import { instantIfAny, instantOf, textOf, tokenOf, wordOf } from './answers.js';
import { optional, toInteger, toList, toWellFormed } from './checks.js';
import type { ProblemBody } from './problems.js';
import type { LockMode } from './types.js';

/** Names a record: what kind it is of, at most 64 characters, and its id, at most 256. */
export interface RecordKey {
  readonly kind: string;
  readonly id: string;
}

/** A record that is to be locked, and what for. */
export interface RecordTarget extends RecordKey {
  readonly intent: 'read' | 'write';
}

/** A lock that an owner holds on a record. */
export interface RecordLock extends RecordKey {
  /** The name of the lock, as others see it in the bucket. */
  readonly name: string;
  readonly mode: LockMode;
  /** The id of the owner. */
  readonly owner: string;
  /** What the owner is called. */
  readonly label: string;
  readonly since: Date;
  /** When the owner ends unless it is renewed. */
  readonly expiresAt?: Date;
  /** An integer that grows over the grants of the bucket, to be presented with each write to the record. */
  readonly fencingToken: number;
  readonly metadata?: string;
}

/** What asking for a lock has come to. */
export interface RecordGrant extends RecordTarget {
  readonly name: string;
  /** Null where the server's lock type for this kind asks readers for no lock. */
  readonly mode: LockMode | null;
  /** Null where there is no lock. */
  readonly fencingToken: number | null;
  /** `upgraded`: the owner was the sole reader and now may write. `notNeeded`: see {@link mode}. */
  readonly how: 'fresh' | 'upgraded' | 'alreadyHeld' | 'notNeeded';
}

/** A record whose lock is meant. */
export interface ReleaseTarget extends RecordKey {
  /** Only this grant is meant. */
  readonly fencingToken?: number | undefined;
}

const KEY = { kind: toWellFormed, id: toWellFormed };
/** What the server has sent of a lock may be given as it is: these members are not looked at. */
const GRANTED = ['intent', 'name', 'mode', 'fencingToken', 'how'] as const;
const SENT = [...GRANTED, 'owner', 'label', 'since', 'expiresAt', 'metadata'] as const;

/** Records that are to be locked. */
export const toTargets = toList({ ...KEY, intent: toWellFormed }, GRANTED);

const toGrants = toList({ ...KEY, fencingToken: optional(toInteger) }, SENT);

/** Records whose locks are meant, or only those grants of them. A grant that needed no lock has none. */
export function toReleases(field: string, value: unknown): ReturnType<typeof toGrants> {
  const isList = typeof value === 'object' && value !== null && Symbol.iterator in value;
  return toGrants(field, isList ? Array.from(value as Iterable<unknown>).filter(needsLock) : value);
}

function needsLock(grant: unknown): boolean {
  return (grant as Partial<RecordGrant> | null | undefined)?.how !== 'notNeeded';
}

/** Records, whatever their grants. */
export const toKeys = toList(KEY, SENT);

const MODES: readonly LockMode[] = ['exclusive', 'shared'];

/** Reads a lock as the server reports it. */
export function readLock(raw: ProblemBody): RecordLock {
  const expiresAt = instantIfAny(raw, 'expiresAt');
  return {
    kind: textOf(raw, 'kind'),
    id: textOf(raw, 'id'),
    name: textOf(raw, 'name'),
    mode: wordOf(raw, 'mode', MODES),
    owner: textOf(raw, 'owner'),
    label: textOf(raw, 'label'),
    since: instantOf(raw, 'since'),
    fencingToken: tokenOf(raw),
    ...(expiresAt && { expiresAt }),
    ...(typeof raw.metadata === 'string' && { metadata: raw.metadata }),
  };
}

/** Reads a grant as the server reports it. */
export function readGrant(raw: ProblemBody): RecordGrant {
  return {
    kind: textOf(raw, 'kind'),
    id: textOf(raw, 'id'),
    intent: wordOf(raw, 'intent', ['read', 'write']),
    name: textOf(raw, 'name'),
    mode: raw.mode == null ? null : wordOf(raw, 'mode', MODES),
    fencingToken: raw.fencingToken == null ? null : tokenOf(raw),
    how: wordOf(raw, 'how', ['fresh', 'upgraded', 'alreadyHeld', 'notNeeded']),
  };
}
