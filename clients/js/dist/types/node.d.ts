import type { Counter } from './bodies.js';
import type { WebSocketLike } from './types.js';
/** A channel between all threads of the process. */
export interface Broadcast {
    onmessage: ((event: {
        readonly data: unknown;
    }) => void) | null;
    postMessage(message: object): void;
    unref(): void;
    close(): void;
}
interface Threads {
    readonly isMainThread: boolean;
    readonly threadId: number;
    readonly BroadcastChannel: new (name: string) => Broadcast;
}
/** The module of Node with this name. */
export declare function builtin<M>(name: string): M | undefined;
/** Threads of this process; undefined where there are none that could end without their sockets saying so. */
export declare const threads: Threads | undefined;
/** A number that the other threads may read, even once this one has ended. */
export declare function newCounter(): Counter;
/** Gives what runs a function in the asynchronous context of this call, that of AsyncLocalStorage. */
export declare function captureContext(): <R>(run: () => R) => R;
/** The events of a request, by the names that Node's own locks use. */
export type RequestEvent = 'start' | 'grant' | 'miss' | 'end';
/** Publishes an event of a request to the subscribers of `diagnostics_channel`, if there are any. */
export declare function publish(event: RequestEvent, message: () => object): void;
/** Keeps the process from ending until the function that it returns is called. */
export declare function keepAlive(): () => void;
/** What is notified of the end of the process or worker. */
export interface Leaver {
    /** Nothing keeps the process any more: it ends unless this does. */
    linger(): void;
    /** The process exits: nothing asynchronous is done after this. */
    leave(): void;
}
/** From now on notifies it. Returns the function that ends this. */
export declare function onExit(leaver: Leaver): () => void;
/** That of the protocol; the headers of our handshakes are known by it. */
export declare const SUBPROTOCOL = "lockhouse.v1";
/** Lets the process end although this socket is open: what is held or pending keeps it by itself. */
export declare function unreferenced(socket: WebSocketLike): WebSocketLike;
export {};
