/// <reference lib="esnext.disposable" preserve="true" />

import { broken } from './checks.js';
import { domError, type LockLostError, type LossReason, lockLost } from './errors.js';
import { elapsedMs, type Mark, now } from './lease.js';
import type { LockMode } from './types.js';
import { repeatMembers } from './webidl.js';

/** What is held, and how long at most, in milliseconds. */
interface Held {
  readonly name: string;
  readonly mode: LockMode;
  readonly maxHold: number | undefined;
}

/** The granted state of one request, shared by all Lock objects that stand for it. */
export class Hold {
  readonly name: string;
  readonly mode: LockMode;
  /** What proves the grant to a later epoch of the server, if it may be proved. */
  ticket: string | undefined;
  readonly #maxHoldMs: number | undefined;
  /** From when on its longest hold counts, if it has one. */
  readonly #grantedAt: Mark | undefined;
  readonly #token: number;
  /** Ends the hold here if it is over by a deadline. */
  readonly #check: () => void;
  /** Called with the error of the loss, once it is announced. */
  onloss: ((loss: LockLostError) => void) | undefined;
  #loss: LockLostError | undefined;
  /** What the signal is aborted with: the loss of this lock, or of one that it is of no use without. */
  #abortReason: LockLostError | undefined;
  #controller: AbortController | undefined;

  constructor({ name, mode, maxHold }: Held, token: number, ticket: string | undefined, check: () => void) {
    this.name = name;
    this.mode = mode;
    this.#maxHoldMs = maxHold;
    this.#grantedAt = maxHold === undefined ? undefined : now();
    this.ticket = ticket;
    this.#token = token;
    this.#check = check;
  }

  /** The error of the loss, once the lock is lost. */
  get loss(): LockLostError | undefined {
    return this.#loss;
  }

  /** Milliseconds that are left of its longest hold, if it has one; not positive once that is over. */
  leftMs(): number | undefined {
    if (this.#maxHoldMs === undefined || !this.#grantedAt) return undefined;
    return this.#maxHoldMs - elapsedMs(this.#grantedAt);
  }

  get token(): number {
    this.#check();
    if (this.#loss) throw this.#loss;
    return this.#token;
  }

  get signal(): AbortSignal {
    this.#check();
    this.#controller ??= new AbortController();
    if (this.#abortReason) this.#controller.abort(this.#abortReason);
    return this.#controller.signal;
  }

  /** Notes the loss, and returns its error. No listener is notified yet. */
  lose(reason: LossReason, why?: string): LockLostError {
    this.#loss = lockLost(reason, why);
    this.#abortReason ??= this.#loss;
    return this.#loss;
  }

  /** Aborts the signal, whose listeners run at once. */
  announceLoss(): void {
    this.#controller?.abort(this.#abortReason);
    if (this.#loss) this.onloss?.(this.#loss);
  }

  /** Aborts the signal because of the loss of another lock; this one is held on. */
  abort(loss: LockLostError): void {
    this.#abortReason ??= loss;
    this.#controller?.abort(this.#abortReason);
  }
}

const CONSTRUCT = Symbol();

/** Scripts cannot construct locks: they lack the key. */
function construct<L extends Lock>(type: { readonly prototype: L }, ...internal: unknown[]): L {
  return new (type as unknown as new (...args: unknown[]) => L)(CONSTRUCT, ...internal);
}

/** Makes the Lock of the specification. */
export const newLock = (hold: Hold): Lock => construct(Lock, hold);

/** Makes the Lock that callbacks of the extended manager get. */
export const newHeldLock = (hold: Hold): HeldLock => construct(HeldLock, hold);

/** Makes the Lock that `acquire` resolves to; `release` ends the hold, and the promise reports how it ended. */
export const newAcquiredLock = (hold: Hold, release: () => void, released: () => Promise<unknown>): AcquiredLock =>
  construct(AcquiredLock, hold, release, released);

/**
 * The extended view of a lock that was got through `navigator.locks`, whose own Lock objects have the
 * specification's members only.
 *
 * Throws a TypeError for anything that is not a Lock of this package.
 */
export let heldLock: (lock: Lock) => HeldLock;

/**
 * A lock, as the Web Locks specification has it: a name and a mode. It is held until the callback that it was
 * given to ends.
 *
 * See https://w3c.github.io/web-locks/#lock
 */
export class Lock {
  readonly #hold: Hold;

  protected constructor(...internal: unknown[]) {
    if (internal[0] !== CONSTRUCT) throw new TypeError(`Failed to construct '${new.target.name}': Illegal constructor`);
    this.#hold = internal[1] as Hold;
  }

  get name(): string {
    if (!(#hold in this)) throw new TypeError('Illegal invocation');
    return this.#hold.name;
  }

  get mode(): LockMode {
    if (!(#hold in this)) throw new TypeError('Illegal invocation');
    return this.#hold.mode;
  }

  static {
    heldLock = (lock) => {
      if (typeof lock !== 'object' || lock === null || !(#hold in lock)) {
        throw broken('lock', lock, 'a Lock of lockhouse');
      }
      return lock instanceof HeldLock ? lock : newHeldLock(lock.#hold);
    };
  }
}

/** A lock with what lockhouse adds to it. */
export class HeldLock extends Lock {
  readonly #hold: Hold;

  protected constructor(...internal: unknown[]) {
    super(...internal);
    this.#hold = internal[1] as Hold;
  }

  /**
   * Aborts when the lock is lost; its reason is a {@link LockLostError}, whose `reason` says how. A release
   * does not abort it. Reading this property also looks at the clocks: after the thread was busy for long,
   * `lock.signal.aborted` says what no event could yet.
   */
  get signal(): AbortSignal {
    return this.#hold.signal;
  }

  /**
   * An integer that strictly grows over the grants of the bucket, to be presented with every write to the
   * guarded resource, which refuses lower ones. Throws the {@link LockLostError} once the lock is lost.
   */
  get fencingToken(): number {
    return this.#hold.token;
  }
}

/** A lock that is held until it is released, or until the end of the scope in which `await using` declared it. */
export class AcquiredLock extends HeldLock {
  /** As {@link AcquiredLock.release}. */
  declare [Symbol.asyncDispose]: () => Promise<void>;
  readonly #release: () => void;
  readonly #released: () => Promise<unknown>;

  protected constructor(...internal: unknown[]) {
    super(...internal);
    this.#release = internal[2] as () => void;
    this.#released = internal[3] as () => Promise<unknown>;
  }

  /**
   * Releases the lock. Resolves once the release is sent; rejects with the {@link LockLostError} if the lock
   * was lost before.
   */
  async release(): Promise<void> {
    this.#release();
    await this.#released();
  }
}

// Engines without explicit resource management lack the symbol; there `release()` is the only way.
if (typeof Symbol.asyncDispose === 'symbol') {
  Object.defineProperty(AcquiredLock.prototype, Symbol.asyncDispose, {
    value: AcquiredLock.prototype.release,
    writable: true,
    configurable: true,
  });
}

Object.defineProperties(Lock.prototype, {
  name: { enumerable: true },
  mode: { enumerable: true },
  [Symbol.toStringTag]: { value: 'Lock', configurable: true },
});

repeatMembers(Lock.prototype, HeldLock.prototype, ['name', 'mode']);

/** The error with which a pending request ends when its client is closed. */
export function clientClosed(): DOMException {
  return domError('AbortError', 'The lockhouse client was closed.');
}
