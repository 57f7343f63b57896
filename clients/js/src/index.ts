// The public face of the package. `connect` gives a client of its own; `install` also puts it on `navigator.locks`.

export { type Bucket, type Client, type ConnectOptions, connect } from './connect.js';
export type { LockLostError, LossReason, RefusalDetail } from './errors.js';
export { install } from './install.js';
export { AcquiredLock, HeldLock, heldLock, Lock } from './lock.js';
export { ExtendedLockManager, LockManager } from './lock-manager.js';
export { currentPartition } from './partition.js';
export type { LockTarget, LockTargets } from './request-all.js';
export type {
  ConnectionState,
  HeldLockCallback,
  LockGrantedCallback,
  LockInfo,
  LockManagerSnapshot,
  LockMode,
  LockOptions,
  RequestOptions,
  WaitingOptions,
  WebSocketConstructor,
  WebSocketLike,
} from './types.js';
