import type { LossReason } from './errors.js';
export declare const CLOSE_UNAUTHENTICATED = 4401;
/** Closes that deny access: to all, or to the bucket. */
export declare const CLOSES_OF_DENIED: Set<number>;
/** Another connection has the session. Instead of a welcome, it is a newer one of ours. */
export declare const CLOSE_REPLACED = 4409;
/** Closes that blame a frame of ours; to send it again would only repeat them. */
export declare const CLOSES_OF_BAD_FRAME: Set<number>;
/** How the locks are lost with a close by which the session has ended. */
export declare function lossOfClose(code: number): LossReason | undefined;
