import type { LossReason } from './errors.js';

// The close codes of PROTOCOL.md section 8 that say what becomes of the session.

const CLOSE_LEASE_EXPIRED = 4408;
export const CLOSE_UNAUTHENTICATED = 4401;
/** Closes that deny access: to all, or to the bucket. */
export const CLOSES_OF_DENIED = new Set([CLOSE_UNAUTHENTICATED, 4403]);
/** Another connection has the session. Instead of a welcome, it is a newer one of ours. */
export const CLOSE_REPLACED = 4409;
/** Closes after which the session is gone: replaced, slow reader. */
const CLOSES_OF_ENDED = new Set([CLOSE_REPLACED, 4429]);
/** Closes that blame a frame of ours; to send it again would only repeat them. */
export const CLOSES_OF_BAD_FRAME = new Set([1003, 1009, 4400]);

/** How the locks are lost with a close by which the session has ended. */
export function lossOfClose(code: number): LossReason | undefined {
  if (code === CLOSE_LEASE_EXPIRED) return 'expired';
  if (CLOSES_OF_DENIED.has(code)) return 'denied';
  return CLOSES_OF_ENDED.has(code) ? 'terminated' : undefined;
}
