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
/** Makes the error for a lock that was lost; `why` are the words of the operator who broke it. */
export declare function lockLost(reason: LossReason, why?: string): LockLostError;
/** Makes the DOMException of this name. */
export declare function domError(name: string, message: string): DOMException;
/** Makes the error for what is pending when the server closes with a code that blames a frame of this client. */
export declare function refusedByServer(code: number, message: string): DOMException;
/** Makes the error for a limit that was exceeded; engines that have the newer class get it. */
export declare function quotaExceeded(message: string): DOMException;
/** Turns an `error` frame of the server into the error that the specification has for it, or the nearest one. */
export declare function serverError(detail: RefusalDetail, message: string): Error;
/** Reports an error of a listener as the platform reports uncaught ones, without letting it reach our caller. */
export declare function reportException(error: unknown): void;
