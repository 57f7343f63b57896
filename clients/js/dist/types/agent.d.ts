import { type Identity } from './bodies.js';
import type { Dialer } from './dialer.js';
import type { Keys } from './key.js';
import { Hold, type Lock } from './lock.js';
import { Session } from './session.js';
import type { ConnectionState, LockManagerSnapshot, LockMode } from './types.js';
/** A checked call of `request()`. */
export interface Ask {
    readonly name: string;
    readonly mode: LockMode;
    readonly ifAvailable: boolean;
    readonly steal: boolean;
    readonly signal: AbortSignal | undefined;
    /** Aborts when a lock is lost without which this one is of no use. */
    readonly loss?: AbortSignal | undefined;
    readonly metadata: string | undefined;
    readonly maxHold: number | undefined;
    readonly timeout: number | undefined;
    readonly callback: (lock: Lock | null) => unknown;
    /** Makes the object that the callback gets. */
    readonly wrap: (hold: Hold) => Lock;
}
/** The user of an agent: it is notified of events. */
export interface AgentUser {
    /** As {@link SessionUser.identified}. */
    identified(identity: Identity | undefined): void;
    stateChanged(state: ConnectionState): void;
    /** As {@link SessionUser.unreachable}. */
    unreachable(why: string, isLast: boolean): void;
    /** From now on there is something open, or there is nothing. */
    busyChanged(isBusy: boolean): void;
}
/**
 * One agent of the specification (a window, a worker, a process) with all its requests and locks, in a
 * session of its own.
 */
export declare class Agent {
    #private;
    constructor(clientId: string, dialer: Dialer, keys: Keys, user: AgentUser);
    /** The session, to be opened, put to sleep and woken. */
    get session(): Session;
    /** Requests a lock: https://w3c.github.io/web-locks/#request-a-lock */
    request(ask: Ask): Promise<unknown>;
    /** Asks for a snapshot: https://w3c.github.io/web-locks/#snapshot-the-lock-state */
    query(): Promise<LockManagerSnapshot>;
    /** Resolves in a later task; rejects there if this agent has been closed meanwhile. */
    nextTurn(): Promise<void>;
    /** Ends this agent for good; everything open rejects with an AbortError. */
    close(): void;
}
