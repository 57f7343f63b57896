// The public face of the package. `connect` gives a client of its own; `install` also puts it on
// `navigator.locks`.

export type { Adoptable } from './adoption.js';
export type { Bucket } from './bucket.js';
export type { CallOptions } from './caller.js';
export type { Assignment, Claim, ClaimOptions, Claims } from './claims.js';
export { type Client, type ConnectOptions, connect } from './connect.js';
export type { LockLostError, LossReason, RefusalDetail } from './errors.js';
export type { BucketEvent, EventsOptions, GapEvent, LockEvent, StateEntry, StateEvent } from './events.js';
export { install } from './install.js';
export type { Key } from './key.js';
export { AcquiredLock, HeldLock, heldLock, Lock } from './lock.js';
export { ExtendedLockManager, LockManager } from './lock-manager.js';
export type { LocksFilter, Offline, OwnerOptions, ResumeOptions } from './offline.js';
export type { Owner, ReleaseOptions } from './owner.js';
export { currentPartition } from './partition.js';
export {
  AlreadyAssignedError,
  BusyError,
  ClaimExpiredError,
  ClaimedError,
  ClaimLostError,
  type Conflict,
  type Holder,
  InvalidError,
  LockedError,
  LocksLostError,
  type LostLock,
  OutcomeUnknownError,
  ProblemError,
  RecoveringError,
  UnauthorizedError,
  UnavailableError,
  UnknownOwnerError,
  UnreachableError,
} from './problems.js';
export type { RecordGrant, RecordKey, RecordLock, RecordTarget, ReleaseTarget } from './records.js';
export type { LockTarget, LockTargets } from './request-all.js';
export type {
  ConnectionState,
  FetchInit,
  FetchLike,
  HeldLockCallback,
  LockGrantedCallback,
  LockInfo,
  LockManagerSnapshot,
  LockMode,
  LockOptions,
  RequestOptions,
  ResponseLike,
  WaitingOptions,
  WebSocketConstructor,
  WebSocketLike,
} from './types.js';
export type { ServerUrls } from './url.js';
