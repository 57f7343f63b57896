// The global of a frame that has been removed has no interfaces any more, and that is when an error is due.
const { DOMException } = globalThis;

/** Why a held lock was lost. */
export type LossReason = 'stolen' | 'expired' | 'terminated' | 'denied' | 'broken' | 'superseded';

/** The AbortError with which a lost lock rejects its released promise and aborts {@link HeldLock.signal}. */
export interface LockLostError extends DOMException {
  readonly name: 'AbortError';
  readonly reason: LossReason;
  /** The words of the operator who broke the lock. */
  readonly why?: string;
}

/** What a server found wrong: the field, its value and the rule that it broke. Set as `detail` on the error. */
export interface RefusalDetail {
  readonly code: string;
  readonly field?: string;
  readonly value?: string;
  readonly rule?: string;
  /** When it may be worth to ask again. Without it: not before something else has changed. */
  readonly retryAfterMs?: number;
}

const LOSS_MESSAGES: Record<LossReason, string> = {
  stolen: "Lock broken by another request with the 'steal' option.",
  expired: 'The lock expired: its maxHold or the lease of its client has run out.',
  terminated: 'The lock ended with the session or the agent that held it.',
  denied: 'The lock ended with the key of its client, or with what the key allowed.',
  broken: 'The lock was broken by an operator.',
  superseded: 'The lock could not be kept over a restart of the server.',
};

/** Makes the error for a lock that was lost; `why` are the words of the operator who broke it. */
export function lockLost(reason: LossReason, why?: string): LockLostError {
  const message = why === undefined ? LOSS_MESSAGES[reason] : `The lock was broken by an operator: ${why}`;
  const error = decorated(new DOMException(message, 'AbortError'), 'reason', reason);
  return (why === undefined ? error : decorated(error, 'why', why)) as LockLostError;
}

/** Makes the DOMException of this name. */
export function domError(name: string, message: string): DOMException {
  return new DOMException(message, name);
}

/** Makes the error for what is pending when the server closes with a code that blames a frame of this client. */
export function refusedByServer(code: number, message: string): DOMException {
  const why = message === '' ? `close code ${code}` : message;
  return domError('NetworkError', `The lock server refused a frame of this client: ${why}`);
}

/** Makes the error for a limit that was exceeded; engines that have the newer class get it. */
export function quotaExceeded(message: string): DOMException {
  const scope = globalThis as { QuotaExceededError?: new (message: string) => DOMException };
  return scope.QuotaExceededError ? new scope.QuotaExceededError(message) : domError('QuotaExceededError', message);
}

/** Turns an `error` frame of the server into the error that the specification has for it, or the nearest one. */
export function serverError(detail: RefusalDetail, message: string): Error {
  return decorated(errorFor(detail.code, message), 'detail', detail);
}

function errorFor(code: string, message: string): Error {
  switch (code) {
    case 'not_supported':
      return domError('NotSupportedError', message);
    case 'quota_exceeded':
      return quotaExceeded(message);
    case 'unknown_agent':
      return domError('InvalidStateError', message);
    case 'forbidden':
      return domError('NotAllowedError', message);
    case 'bad_frame':
      return new TypeError(message);
    default:
      return domError('OperationError', message);
  }
}

function decorated<E extends Error>(error: E, key: string, value: unknown): E {
  return Object.defineProperty(error, key, { value, enumerable: true, configurable: true });
}

/** Reports an error of a listener as the platform reports uncaught ones, without letting it reach our caller. */
export function reportException(error: unknown): void {
  if (typeof globalThis.reportError === 'function') {
    globalThis.reportError(error);
    return;
  }
  queueMicrotask(() => {
    throw error;
  });
}
