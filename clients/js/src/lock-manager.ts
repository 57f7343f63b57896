import type { Agent, Ask } from './agent.js';
import {
  type ConvertedOptions,
  failureText,
  type Method,
  toCallback,
  toDOMString,
  toExtendedOptions,
  toLockOptions,
  tooFewArguments,
} from './conversions.js';
import { domError } from './errors.js';
import {
  type AcquiredLock,
  type HeldLock,
  type Hold,
  type Lock,
  newAcquiredLock,
  newHeldLock,
  newLock,
} from './lock.js';
import { isReserved } from './names.js';
import { convertTargets, type LockTargets, requestInOrder, toTargets } from './request-all.js';
import type {
  HeldLockCallback,
  LockGrantedCallback,
  LockManagerSnapshot,
  LockOptions,
  RequestOptions,
  WaitingOptions,
} from './types.js';
import { ofOtherRealm, repeatMembers } from './webidl.js';

/** Where a manager's calls go. */
export interface Source {
  /**
   * The checks of the environment: throws InvalidStateError or SecurityError where the specification has
   * them.
   */
  admit(): void;
  /** The agent, which exists whenever `admit` does not throw. */
  agent(): Agent;
}

const CONSTRUCT = Symbol();

/** Scripts cannot construct managers: they lack the key. */
function construct<M extends LockManager>(type: { readonly prototype: M }, source: Source): M {
  return new (type as unknown as new (...args: unknown[]) => M)(CONSTRUCT, source);
}

/** Makes the object for `navigator.locks`. */
export const newLockManager = (source: Source): LockManager => construct(LockManager, source);

/** Makes the object for `connect().locks`. */
export const newExtendedLockManager = (source: Source): ExtendedLockManager => construct(ExtendedLockManager, source);

let sourceOf: (manager: LockManager) => Source;

/**
 * The Web Locks API of one bucket: makes requests for locks, and asks for the state of the lock manager.
 *
 * See https://w3c.github.io/web-locks/#api-lock-manager
 */
export class LockManager {
  readonly #source: Source;

  protected constructor(...internal: unknown[]) {
    if (internal[0] !== CONSTRUCT) throw new TypeError(`Failed to construct '${new.target.name}': Illegal constructor`);
    this.#source = internal[1] as Source;
  }

  /**
   * Requests a lock and runs the callback while it is held. Resolves or rejects as the callback does, once
   * the lock is released; rejects with an AbortError if the lock is lost meanwhile. Every error, wrong
   * arguments included, is a rejection.
   */
  request<T>(name: string, callback: LockGrantedCallback<T>): Promise<Awaited<T>>;
  request<T>(name: string, options: LockOptions, callback: LockGrantedCallback<T>): Promise<Awaited<T>>;
  request(_name: unknown, _callbackOrOptions: unknown, ..._callback: unknown[]): Promise<unknown> {
    // biome-ignore lint/complexity/noArguments: overloads are distinguished by how many arguments were passed, undefined included.
    const passed = arguments;
    try {
      if (!(#source in this)) return ofOtherRealm(this, ownMethods.request, 'request', passed);
      return admitted(this.#source, passed, this instanceof ExtendedLockManager ? newHeldLock : newLock);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Takes a snapshot of what is held and what waits in this bucket. It may be out of date by the time it is
   * seen.
   */
  query(): Promise<LockManagerSnapshot> {
    try {
      if (!(#source in this)) return ofOtherRealm(this, ownMethods.query, 'query', []);
      this.#source.admit();
      return this.#source.agent().query();
    } catch (error) {
      return Promise.reject(error);
    }
  }

  static {
    sourceOf = (manager) => manager.#source;
  }
}

// As they are before any script can replace them.
const ownMethods = { request: LockManager.prototype.request, query: LockManager.prototype.query };

Object.defineProperties(LockManager.prototype, {
  query: { enumerable: true },
  request: { enumerable: true },
  [Symbol.toStringTag]: { value: 'LockManager', configurable: true },
});

/**
 * The lock manager with what lockhouse adds: further options, locks with a signal and a fencing token, and
 * two more methods.
 */
export class ExtendedLockManager extends LockManager {
  declare request: {
    <T>(name: string, callback: HeldLockCallback<T, HeldLock>): Promise<Awaited<T>>;
    <T>(name: string, options: WaitingOptions, callback: HeldLockCallback<T, HeldLock>): Promise<Awaited<T>>;
    <T>(name: string, options: RequestOptions, callback: HeldLockCallback<T>): Promise<Awaited<T>>;
  };

  /**
   * Requests a lock and resolves to it; it is held until `release()`, or the end of the scope with
   * `await using`. With `ifAvailable` it resolves to null if the lock is not to be had at once.
   */
  acquire(name: string, options?: WaitingOptions): Promise<AcquiredLock>;
  acquire(name: string, options: RequestOptions | undefined): Promise<AcquiredLock | null>;
  acquire(...args: unknown[]): Promise<AcquiredLock | null> {
    return new Promise((resolve, reject) => {
      const source = sourceOf(this);
      if (args.length < 1) throw tooFewArguments('acquire', 1, args.length);
      const name = toDOMString(args[0]);
      const options = toExtendedOptions(args[1], 'acquire');
      let release: () => void = () => {};
      const held = new Promise<void>((settle) => {
        release = settle;
      });
      const wrap = (hold: Hold): Lock => newAcquiredLock(hold, release, () => released);
      const callback = (lock: Lock | null): Promise<void> | undefined => {
        resolve(lock as AcquiredLock | null);
        return lock ? held : undefined;
      };
      const released = send(source, 'acquire', { ...options, name, callback, wrap });
      // Before the grant this is the failure of the request; after it, `release()` reports it.
      released.catch(reject);
    });
  }

  /**
   * Requests several locks in one strict order, that of their names by code units, and runs the callback
   * while all are held. A name given twice is taken once, in the stronger mode. With `ifAvailable` the
   * callback gets null unless all are to be had. If one is lost, the signals of all are aborted, and the
   * promise rejects with that loss; the others are held until the callback has ended. While another is waited
   * for, nothing is called back.
   */
  requestAll<T>(targets: LockTargets, callback: (locks: HeldLock[]) => T | PromiseLike<T>): Promise<Awaited<T>>;
  requestAll<T>(
    targets: LockTargets,
    options: WaitingOptions,
    callback: (locks: HeldLock[]) => T | PromiseLike<T>,
  ): Promise<Awaited<T>>;
  requestAll<T>(
    targets: LockTargets,
    options: RequestOptions,
    callback: (locks: HeldLock[] | null) => T | PromiseLike<T>,
  ): Promise<Awaited<T>>;
  async requestAll(...args: unknown[]): Promise<unknown> {
    const source = sourceOf(this);
    if (args.length < 2) throw tooFewArguments('requestAll', 2, args.length);
    const options = toExtendedOptions(args.length > 2 ? args[1] : undefined, 'requestAll');
    const sorted = convertTargets(toTargets(args[0]), options.mode);
    const position = Math.min(args.length, 3);
    const callback = toCallback<(locks: HeldLock[] | null) => unknown>(args[position - 1], position, 'requestAll');
    source.admit();
    for (const { name, mode } of sorted) checkRequest(name, { ...options, mode }, 'requestAll');
    return requestInOrder(source.agent(), sorted, options, callback);
  }
}

repeatMembers(LockManager.prototype, ExtendedLockManager.prototype, ['query', 'request']);

/** The conversions of request(), in the order of the specification, then the request itself. */
function admitted(source: Source, args: ArrayLike<unknown>, wrap: (hold: Hold) => Lock): Promise<unknown> {
  if (args.length < 2) throw tooFewArguments('request', 2, args.length);
  const name = toDOMString(args[0]);
  const options = toLockOptions(args.length > 2 ? args[1] : undefined, 'request');
  const position = Math.min(args.length, 3);
  const callback = toCallback<Ask['callback']>(args[position - 1], position, 'request');
  return send(source, 'request', { ...options, name, callback, wrap });
}

/** The checks of a request, in the order of the specification, then the request itself. */
function send(source: Source, method: Method, ask: Ask): Promise<unknown> {
  source.admit();
  checkRequest(ask.name, ask, method);
  return source.agent().request(ask);
}

/** Steps 5 to 9 of https://w3c.github.io/web-locks/#dom-lockmanager-request */
function checkRequest(name: string, options: ConvertedOptions, method: Method): void {
  const notSupported = (message: string) => domError('NotSupportedError', failureText(method, message));
  const { ifAvailable, steal, mode, signal } = options;
  if (isReserved(name)) throw notSupported("Names cannot start with '-'.");
  if (steal && ifAvailable) throw notSupported("The 'steal' and 'ifAvailable' options cannot be used together.");
  if (steal && mode !== 'exclusive') throw notSupported("The 'steal' option may only be used with 'exclusive' locks.");
  if (signal && steal) throw notSupported("The 'signal' and 'steal' options cannot be used together.");
  if (signal && ifAvailable) throw notSupported("The 'signal' and 'ifAvailable' options cannot be used together.");
  if (signal?.aborted) throw signal.reason;
}
