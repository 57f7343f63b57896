import type { LossReason, RefusalDetail } from './errors.js';
import type { LockInfo } from './types.js';
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
export type Notice = {
    readonly type: 'granted';
    readonly id: number;
    readonly token: number;
    readonly ticket: string | undefined;
} | {
    readonly type: 'refused';
    readonly id: number;
} | {
    readonly type: 'released';
    readonly id: number;
} | {
    readonly type: 'lost';
    readonly id: number;
    readonly reason: LossReason;
    readonly why: string | undefined;
} | {
    readonly type: 'ended';
    readonly agent: number;
    readonly reason: LossReason;
} | {
    readonly type: 'error';
    readonly id: number;
    readonly detail: RefusalDetail;
    readonly message: string;
} | {
    readonly type: 'snapshot';
    readonly id: number;
    readonly held: LockInfo[];
    readonly pending: LockInfo[];
    readonly more: boolean;
};
/** Any frame as it comes: an object whose fields are not yet to be trusted. */
export type RawFrame = Readonly<Record<string, unknown>>;
/** A frame that breaks the protocol. */
export declare class ProtocolError extends Error {
    readonly name = "ProtocolError";
}
/** The most frames of a message. */
export declare const BATCH_FRAMES = 1024;
/** Reads a message: a frame, or an array whose frames are still to be looked at. */
export declare function parseMessage(data: unknown): RawFrame | readonly unknown[];
/** The frame at that place of an array. */
export declare function frameAt(message: readonly unknown[], index: number): RawFrame;
/** The pause that a `closing` names; 0 if none. */
export declare function readPauseMs(frame: RawFrame): number;
export declare function readWelcome(frame: RawFrame): Welcome;
export declare function readPing(frame: RawFrame): Ping;
export declare function readFatal(frame: RawFrame): Fatal;
/** Reads the frames that concern requests, queries, locks and agents. Returns undefined for any other type. */
export declare function readNotice(frame: RawFrame): Notice | undefined;
/** An integer of at least 0 that JavaScript holds exactly, which is what every number of the protocol is. */
export declare function count(frame: RawFrame, field: string): number;
