/**
 * What says who connects, where the server wants to know: an API key or a token. A function is asked for it
 * with each connection and each call, and a little before a token ends, so that it should give what something
 * else keeps fresh.
 */
export type Key = string | (() => string | PromiseLike<string>);
/** The pause before the function is asked again for a key in place of one that was refused. */
export declare const REFUSED_PAUSE_MS = 1000;
/** Gives the key of the moment; undefined if there is none. */
export declare class Keys {
    #private;
    constructor(key: Key | undefined);
    /** Whether the next key may be another one. */
    get mayChange(): boolean;
    /**
     * The key, or a promise of it where it has to be asked for. Rejects with what the function throws, and with
     * a WrongKey for what is no key.
     */
    now(): string | undefined | Promise<string>;
    /** Uses the key, at once if it is at hand. */
    use(use: (key: string | undefined) => void, fail: (error: unknown) => void): void;
    /** The server has refused a key: from now on the function is asked at most once a second for all callers. */
    refused(): void;
    /** The server has taken a key. */
    taken(): void;
}
/** A function has given what is no key. Asking again would not help: the program is wrong. */
export declare class WrongKey extends TypeError {
}
/** A key, or a function that will give some. */
export declare function toKey(field: string, value: unknown): Key;
