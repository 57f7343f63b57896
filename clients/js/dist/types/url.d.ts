/** What of the options decides whom a connection shares its locks with. */
export interface Scoping {
    readonly bucket?: string | undefined;
    readonly partition?: string | undefined;
}
/** The URL of a server, or several: those of a fleet, of which each serves every client. */
export type ServerUrls = string | URL | readonly (string | URL)[];
/** One address of a server. */
export interface Endpoint {
    /** Its name in errors. */
    readonly field: string;
    readonly url: URL;
}
/**
 * Reads the URLs of a server. Several must have the same protocol, and the same bucket and partition unless
 * these are `given` otherwise.
 */
export declare function readEndpoints(urls: ServerUrls, given: Scoping): Endpoint[];
/**
 * The address below which the HTTP API of a bucket lies, beside that of the WebSocket. Throws a TypeError
 * where the one does not give the other, or a path cannot hold the name.
 */
export declare function bucketUrl({ field, url }: Endpoint, bucket: string): string;
/**
 * Percent-encodes a value. Throws a TypeError for what is no string, and for a lone surrogate, which an
 * address cannot hold.
 */
export declare function checkedForUrl(field: string, value: string): string;
/** The bucket that an address names. */
export declare function bucketOf(url: URL): string;
/** The address with this bucket and partition; what is not given stays as it is. */
export declare function scoped(url: URL, { bucket, partition }: Scoping): URL;
