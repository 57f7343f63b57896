/**
 * The growing pause between attempts to connect, with jitter, so that a restarted server is not met by all
 * clients at once.
 */
export declare class Backoff {
    #private;
    /**
     * Milliseconds to wait before the next attempt: half to the whole of a span that doubles up to 5 s, or up
     * to `mostMs` if that is less.
     */
    nextMs(mostMs?: number): number;
    /** The connection has proved good. */
    reset(): void;
}
