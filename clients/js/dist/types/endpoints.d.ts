import type { Endpoint } from './url.js';
/**
 * The addresses of a server, in an order of this client's own, so that a crowd of clients spreads. Each
 * serves every client, so that connections and calls go to the one that answered last.
 */
export declare class Endpoints {
    #private;
    readonly all: readonly Endpoint[];
    /** At least one. */
    constructor(all: readonly Endpoint[]);
    /** The one to be used now. */
    get current(): Endpoint;
    /** This one did not answer: the next is used, unless another use has turned away from it already. */
    failed(endpoint: Endpoint): void;
    /** All of them for people to read, without the query, which may hold what is private. */
    toString(): string;
}
