import { type Identity } from './bodies.js';
import type { Dialer } from './dialer.js';
import { type LossReason } from './errors.js';
import { type Notice, ProtocolError } from './frames.js';
import { type Keys } from './key.js';
import { Lease } from './lease.js';
import { Posted } from './outbox.js';
import type { ConnectionState } from './types.js';
/** The user of a session: it is notified of events, always after the session's own state is complete. */
export interface SessionUser {
    /** A fresh session has begun: everything that is pending has to be sent. */
    begun(): void;
    /** The session goes on over a new connection: unnumbered questions have to be asked anew. */
    resumed(): void;
    /**
     * A server of a new epoch has taken the place of the old one, and lets locks be reclaimed: until it answers
     * they are held under the lease of the session that is gone. `begun` follows.
     */
    succeeded(former: Lease): void;
    /**
     * The session is over and every lock with it. With a failure, what is pending ends too; else it is asked
     * again.
     */
    ended(reason: LossReason, failure?: Error): void;
    /** These came together, in this order. */
    noticed(notices: readonly Notice[]): void;
    /** Whether notices wait for their tasks. */
    hasTasks(): boolean;
    /** Whether there are locks that end with the lease. */
    holdsLocks(): boolean;
    /** A session has begun or goes on, or there is none any more. */
    identified(identity: Identity | undefined): void;
    stateChanged(state: ConnectionState): void;
    /** No endpoint has given a connection yet; they are about to be tried again, unless this was the last time. */
    unreachable(why: string, isLast: boolean): void;
}
/**
 * One session with a server (PROTOCOL.md sections 2 to 4 and 9): it outlives its connections, and renews
 * them.
 */
export declare class Session {
    #private;
    constructor(dialer: Dialer, keys: Keys, user: SessionUser);
    /** Connects. An error of the WebSocket constructor, such as for mixed content, is thrown the first time. */
    open(): void;
    /**
     * Sends a numbered frame, given without its closing brace. Returns undefined if there is no session to send
     * it in.
     */
    post(body: string): Posted | undefined;
    /** What was posted is not to wait for what the program does next. */
    hurry(): void;
    /**
     * Sends a question with this id, given without its closing brace, behind all that was posted. After a
     * resume it is not sent again.
     */
    ask(id: number, body: string): void;
    /**
     * Whether the deadline of the lease has passed, or the credential is over. If so, the session is over, and
     * this client connects anew.
     */
    isOverdue(): boolean;
    /** Ends the session, on the server too, and connects anew. */
    abandon(reason: LossReason, failure?: Error): void;
    /** Ends the session because the server broke the protocol: nothing that it said can be relied on. */
    accuse(error: ProtocolError): void;
    /** Ends the session and stays away until {@link wake}: the page is being put into the back/forward cache. */
    sleep(): void;
    wake(): void;
    /** Ends the session for good, on the server too if it can be reached now. */
    close(): void;
    /** The process ends: what has been released while the connection is lost keeps it for a lease at most. */
    linger(): void;
    /** Says goodbye at the exit of the process, which leaves no time for anything else. */
    leave(): void;
    /** A task with a callback begins. */
    turnBegins(): void;
    /** The callback has run: what it has sent goes, unless others are due. */
    turnEnds(): void;
    get state(): ConnectionState;
    /** Why a session that is closed takes nothing more. */
    get closedError(): DOMException;
    /** The longest frame, in bytes, that the server takes. */
    get frameBytes(): number;
    /** Whether the server may still be waiting for the holders of an earlier epoch, so that it grants nothing. */
    get isRecovering(): boolean;
    /** Whether so much waits to be sent that no more requests should be taken. */
    get isFull(): boolean;
}
