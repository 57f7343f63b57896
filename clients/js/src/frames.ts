import type { LossReason, RefusalDetail } from './errors.js';
import type { LockInfo, LockMode } from './types.js';

// The frames of PROTOCOL.md as this client reads them: what the server sends is checked field by field before
// anything acts on it.

export interface Welcome {
  readonly type: 'welcome';
  /** Names one life of the server. */
  readonly epoch: string;
  /** Whether locks of an earlier epoch may be reclaimed. */
  readonly reclaims: boolean;
  /** For how long at most the server waits for those who do. */
  readonly recoveringMs: number;
  readonly session: string;
  readonly secret: string;
  readonly resumed: boolean;
  readonly received: number;
  readonly leaseMs: number;
  readonly heartbeatMs: number;
  /** For how long the key is still good; undefined: without an end. */
  readonly credentialMs: number | undefined;
  readonly frameBytes: number;
  readonly windowBytes: number;
}

export interface Ping {
  readonly type: 'ping';
  readonly n: number;
  readonly answered: number;
}

export interface Fatal {
  readonly type: 'fatal';
  readonly code: string;
  readonly message: string;
}

/** The answers to requests and queries, and the ends of locks. */
export type Notice =
  | { readonly type: 'granted'; readonly id: number; readonly token: number; readonly ticket: string | undefined }
  | { readonly type: 'refused'; readonly id: number }
  | { readonly type: 'released'; readonly id: number }
  | { readonly type: 'lost'; readonly id: number; readonly reason: LossReason; readonly why: string | undefined }
  | { readonly type: 'ended'; readonly agent: number; readonly reason: LossReason }
  | { readonly type: 'error'; readonly id: number; readonly detail: RefusalDetail; readonly message: string }
  | {
      readonly type: 'snapshot';
      readonly id: number;
      readonly held: LockInfo[];
      readonly pending: LockInfo[];
      readonly more: boolean;
    };

/** The codes of PROTOCOL.md section 8; any other is treated like `internal`. */
const KNOWN_CODES = new Set([
  'bad_frame',
  'unknown_type',
  'not_supported',
  'quota_exceeded',
  'unknown_agent',
  'forbidden',
  'closing',
  'unavailable',
  'internal',
]);

/** Any frame as it comes: an object whose fields are not yet to be trusted. */
export type RawFrame = Readonly<Record<string, unknown>>;

/** A frame that breaks the protocol. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
}

/** The most frames of a message. */
export const BATCH_FRAMES = 1_024;

/** Reads a message: a frame, or an array whose frames are still to be looked at. */
export function parseMessage(data: unknown): RawFrame | readonly unknown[] {
  if (typeof data !== 'string') throw new ProtocolError('a message that is not text');
  let message: unknown;
  try {
    message = JSON.parse(data);
  } catch {
    throw new ProtocolError('a message that is not JSON');
  }
  if (!Array.isArray(message)) {
    if (isObject(message)) return message;
    throw new ProtocolError('not a JSON object');
  }
  if (message.length === 0 || message.length > BATCH_FRAMES) {
    throw new ProtocolError(`an array of ${message.length} frames, which has 1 to ${BATCH_FRAMES}`);
  }
  return message;
}

/** The frame at that place of an array. */
export function frameAt(message: readonly unknown[], index: number): RawFrame {
  const frame = message[index];
  if (isObject(frame)) return frame;
  throw new ProtocolError(`frame ${index} of the array is no JSON object`);
}

function isObject(value: unknown): value is RawFrame {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The pause that a `closing` names; 0 if none. */
export function readPauseMs(frame: RawFrame): number {
  return frame.pauseMs == null ? 0 : count(frame, 'pauseMs');
}

export function readWelcome(frame: RawFrame): Welcome {
  const limits = frame.limits;
  const bounds = typeof limits === 'object' && limits !== null ? (limits as RawFrame) : {};
  return {
    type: 'welcome',
    epoch: text(frame, 'epoch'),
    reclaims: flag(frame, 'reclaims'),
    recoveringMs: frame.recoveringMs == null ? 0 : count(frame, 'recoveringMs'),
    session: text(frame, 'session'),
    secret: text(frame, 'secret'),
    resumed: flag(frame, 'resumed'),
    received: count(frame, 'received'),
    leaseMs: positive(frame, 'leaseMs'),
    heartbeatMs: positive(frame, 'heartbeatMs'),
    credentialMs: frame.credentialMs == null ? undefined : count(frame, 'credentialMs'),
    frameBytes: bounds.frameBytes == null ? 65_536 : positive(bounds, 'frameBytes'),
    windowBytes: positive(bounds, 'windowBytes'),
  };
}

export function readPing(frame: RawFrame): Ping {
  return { type: 'ping', n: positive(frame, 'n'), answered: count(frame, 'answered') };
}

export function readFatal(frame: RawFrame): Fatal {
  const { code, message } = frame;
  return { type: 'fatal', code: String(code), message: typeof message === 'string' ? message : String(code) };
}

/** Reads the frames that concern requests, queries, locks and agents. Returns undefined for any other type. */
export function readNotice(frame: RawFrame): Notice | undefined {
  switch (frame.type) {
    case 'granted':
      return {
        type: 'granted',
        id: positive(frame, 'id'),
        token: positive(frame, 'token'),
        ticket: frame.ticket == null ? undefined : text(frame, 'ticket'),
      };
    case 'refused':
    case 'released':
      return { type: frame.type, id: positive(frame, 'id') };
    case 'lost':
      return {
        type: 'lost',
        id: positive(frame, 'id'),
        reason: lossReason(frame),
        why: frame.why == null ? undefined : text(frame, 'why'),
      };
    case 'ended':
      return { type: 'ended', agent: positive(frame, 'agent'), reason: lossReason(frame) };
    case 'error':
      return readError(frame);
    case 'snapshot':
      return {
        type: 'snapshot',
        id: positive(frame, 'id'),
        held: infos(frame, 'held'),
        pending: infos(frame, 'pending'),
        more: flag(frame, 'more'),
      };
    default:
      return undefined;
  }
}

/** An integer of at least 0 that JavaScript holds exactly, which is what every number of the protocol is. */
export function count(frame: RawFrame, field: string): number {
  const value = frame[field];
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) throw wrong(frame, field);
  return value;
}

/** The `error` frame; one that names no request has the id 0. */
function readError(frame: RawFrame): Notice {
  const { field, value, rule, retryAfterMs } = frame;
  const code = text(frame, 'code');
  const detail: RefusalDetail = {
    code: KNOWN_CODES.has(code) ? code : 'internal',
    ...(typeof field === 'string' && { field }),
    ...(typeof value === 'string' && { value }),
    ...(typeof rule === 'string' && { rule }),
    ...(retryAfterMs != null && { retryAfterMs: count(frame, 'retryAfterMs') }),
  };
  const message = typeof frame.message === 'string' ? frame.message : detail.code;
  return { type: 'error', id: frame.id == null ? 0 : positive(frame, 'id'), detail, message };
}

function infos(frame: RawFrame, field: string): LockInfo[] {
  const list = frame[field];
  if (!Array.isArray(list)) throw wrong(frame, field);
  return list.map((entry: unknown) => {
    const info = (typeof entry === 'object' ? entry : null) as RawFrame | null;
    const mode = info?.mode;
    if (!info || !isMode(mode)) throw wrong(frame, field);
    return { clientId: text(info, 'clientId'), mode, name: text(info, 'name') };
  });
}

function isMode(value: unknown): value is LockMode {
  return value === 'exclusive' || value === 'shared';
}

function isLossReason(value: unknown): value is LossReason {
  return value === 'stolen' || value === 'expired' || value === 'broken' || value === 'superseded';
}

function lossReason(frame: RawFrame): LossReason {
  const { reason } = frame;
  if (isLossReason(reason)) return reason;
  throw wrong(frame, 'reason');
}

function positive(frame: RawFrame, field: string): number {
  const value = count(frame, field);
  if (value === 0) throw wrong(frame, field);
  return value;
}

function flag(frame: RawFrame, field: string): boolean {
  const value = frame[field] ?? false;
  if (typeof value !== 'boolean') throw wrong(frame, field);
  return value;
}

function text(frame: RawFrame, field: string): string {
  const value = frame[field];
  if (typeof value !== 'string') throw wrong(frame, field);
  return value;
}

function wrong(frame: RawFrame, field: string): ProtocolError {
  return new ProtocolError(`${String(frame.type)}: ${field} is missing or has an impossible value`);
}
