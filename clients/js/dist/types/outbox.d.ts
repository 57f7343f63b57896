/** A numbered frame that has been posted. */
export declare class Posted {
    #private;
    constructor(outbox: Outbox, seq: number);
    /** Whether it has been sent, so that the server may have it. */
    get wasSent(): boolean;
}
/**
 * The frames of one session on their way out: those under way, of which a resume sends the numbered ones
 * again (the window), and behind them, in order, those that wait for a place in it.
 *
 * The window has as many bytes as the server reads ahead of what it carries out. More of them would keep it
 * from the pongs behind them, and so end the lease.
 */
export declare class Outbox {
    #private;
    /** The most bytes of the window. */
    windowBytes: number;
    /** The number of the last frame that was given one. */
    get lastSeq(): number;
    /** Whether the other side has processed everything. */
    get isEmpty(): boolean;
    /** Whether no more requests should be taken; what ends them still may. */
    get isFull(): boolean;
    /** The number of the last frame that was sent. */
    get lastSent(): number;
    /** Keeps the body until it is acknowledged. Returns its number, which is above {@link lastSeq} if it waits. */
    add(body: string): number;
    /** The frame of this number is being sent. */
    sent(seq: number): void;
    /** Takes a question, which has no number. Returns whether it may be sent at once; else it waits. */
    ask(id: number, body: string): boolean;
    /** The other side has answered the question with this id, if there is one, and so has done those before it. */
    answered(id: number): void;
    /** Drops what the other side has processed. Returns false if it says more than was ever sent. */
    acknowledge(seq: number): boolean;
    /** Takes the next waiting frame that now may be sent; `seq` is 0 for an unnumbered one. */
    next(): {
        body: string;
        seq: number;
    } | undefined;
    /** Forgets the unnumbered frames that wait: after a resume they are asked anew. */
    dropUnnumbered(): void;
    /** The unacknowledged frames, to be sent again after a resume. */
    unacknowledged(): {
        body: string;
        seq: number;
    }[];
}
