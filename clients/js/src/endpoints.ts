import type { Endpoint } from './url.js';

/**
 * The addresses of a server, in an order of this client's own, so that a crowd of clients spreads. Each
 * serves every client, so that connections and calls go to the one that answered last.
 */
export class Endpoints {
  readonly all: readonly Endpoint[];
  #index = 0;

  /** At least one. */
  constructor(all: readonly Endpoint[]) {
    const drawn = all.map((endpoint) => ({ endpoint, place: Math.random() }));
    this.all = drawn.sort((a, b) => a.place - b.place).map(({ endpoint }) => endpoint);
  }

  /** The one to be used now. */
  get current(): Endpoint {
    return this.all[this.#index] as Endpoint;
  }

  /** This one did not answer: the next is used, unless another use has turned away from it already. */
  failed(endpoint: Endpoint): void {
    if (endpoint === this.current) this.#index = (this.#index + 1) % this.all.length;
  }

  /** All of them for people to read, without the query, which may hold what is private. */
  toString(): string {
    return this.all.map(({ url }) => `${url.origin}${url.pathname}`).join(' or ');
  }
}
