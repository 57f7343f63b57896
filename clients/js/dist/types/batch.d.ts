/** The session of a batch. */
export interface BatchUser {
    /** Sends a message whose last numbered frame has that number, or 0. Returns false if the session has ended. */
    send(message: string, seq: number): boolean;
    /** The number that the next message acknowledges. */
    received(): number;
    /** Whether callbacks are due. */
    hasCompany(): boolean;
}
/**
 * Gathers frames, and sends them in one message: what costs most about a frame is its message.
 *
 * What the program sends before it lets its microtasks run goes together, and what it releases goes at once,
 * as the program may do anything as soon as it learns of that. In a page, where nothing waits for other
 * threads, a program whose last callbacks all were short is brisk: then frames wait for the rest of its turn
 * (for the request that follows a release), and, while other callbacks are due, a moment for theirs. The
 * next piece of such a program may be a long one all the same, and frames then go after it.
 */
export declare class Batch {
    #private;
    constructor(user: BatchUser, isPage: boolean);
    /** Adds a frame, given without its closing brace. Returns false if the session has ended meanwhile. */
    add(body: string, seq: number): boolean;
    /** Whether nothing waits to be sent. */
    get isEmpty(): boolean;
    /** What was added is not to wait, unless the program is brisk and has other callbacks that are due. */
    hurry(): void;
    /** A turn of the program begins: a task with a callback. */
    turnBegins(): void;
    /** The turn is about to end, though microtasks may follow. */
    turnEnds(): void;
    /** Sends what was gathered. Returns false if the session has ended. */
    flush(): boolean;
    /** Forgets what was gathered. */
    clear(): void;
}
