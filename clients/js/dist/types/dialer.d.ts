import type { Endpoints } from './endpoints.js';
import { type RawFrame } from './frames.js';
import type { WebSocketLike } from './types.js';
import type { Endpoint } from './url.js';
/**
 * Connects to one endpoint after another. A round is one attempt at each; before it there is a pause, and
 * within it none. Both the pauses and the time that an attempt may take double with each round.
 *
 * `urgentMs` is the heartbeat while there are locks to reclaim: no pause is longer then, and the attempts of
 * the first round give up after it, so that the next endpoint is tried long before the lease is over.
 */
export declare class Dialer {
    #private;
    /** `open` throws what the constructor of a WebSocket throws. */
    constructor(endpoints: Endpoints, open: (endpoint: Endpoint) => WebSocketLike);
    /** Begins a connection. */
    readonly dial: () => WebSocketLike;
    /** The latest connection has an error, which comes before its close. */
    readonly erred: ({ message }: {
        readonly message?: unknown;
    }) => void;
    /** The close of the latest connection, with its error. `fatal` is what the server has said before. */
    explained(code: number, reason: string, fatal: string): string;
    /** The latest attempt is of no use, or its connection has broken: the next one goes elsewhere. */
    failed(why?: string): void;
    /** Why there is no connection; undefined while there is one, and before the first attempt has failed. */
    get trouble(): string | undefined;
    /** The server is about to close the connection, and may name the pause before the next one. */
    closing(frame: RawFrame): void;
    /** There is a connection. Once it breaks, a pause comes first, so that a crowd does not move as one. */
    connected(): void;
    /** The connection has proved good. */
    proved(): void;
    /** Whether the next attempt begins a round. */
    get isRoundOver(): boolean;
    /** Milliseconds to wait before the next attempt. */
    pauseMs(urgentMs: number | undefined): number;
    /** Milliseconds after which the latest attempt, from the dial to the welcome, is given up. */
    patienceMs(urgentMs: number | undefined): number;
}
