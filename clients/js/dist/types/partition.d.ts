/**
 * The partition of this context, to be shared only with frames in the same place, as its storage is:
 * empty in a page of its own and in a frame whose ancestors are all of the same site, else the site of the
 * top page and whether an ancestor is cross-site.
 *
 * A worker cannot know where its page is embedded, and gets the empty one: pages hand their partition to
 * their workers.
 */
export declare function currentPartition(): string;
/** The partition of a frame with this origin below these ancestors, the nearest first. */
export declare function partitionFor(origin: string, ancestors: readonly string[]): string;
/**
 * The site of an origin: its scheme and the last two labels of its host; the ports of one host are one site;
 * addresses count whole.
 */
export declare function siteOf(origin: string): string;
