/** The start of a partition that lists origins, for which the server puts that of their sites. */
export declare const ORIGINS = "origins:";
/**
 * The partition of this context, to be shared only with frames in the same place, as its storage is: empty in
 * a page of its own and in a frame whose ancestors are all of its origin. In other frames it lists their
 * origin and those of their ancestors. Which of them are of one site only the server knows, which makes it
 * the empty one or that of the top page. A credentialless frame has that of its storage.
 *
 * A worker cannot know where its page is embedded, and gets the empty one: pages hand their partition to
 * their workers.
 */
export declare function currentPartition(): string;
/** The partition of a frame with this origin below these ancestors, the nearest first. */
export declare function partitionFor(origin: string, ancestors: readonly string[]): string;
