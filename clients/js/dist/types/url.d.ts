/** What of the options decides whom a connection shares its locks with. */
export interface Scoping {
    readonly bucket?: string | undefined;
    readonly partition?: string | undefined;
}
/**
 * Reads the address of a server: http(s) or ws(s); the path `/` stands for `/v1/ws`; the query may name a
 * bucket and a partition.
 * Errors show no password.
 */
export declare function serverUrl(address: string | URL): URL;
/**
 * The address below which the HTTP API of a bucket lies, beside that of the WebSocket. Throws a TypeError
 * where the one does not give the other, or a path cannot hold the name.
 */
export declare function bucketUrl(socketUrl: URL, bucket: string): string;
/**
 * Percent-encodes a value. Throws a TypeError for what is no string, and for a lone surrogate, which an
 * address cannot hold.
 */
export declare function checkedForUrl(field: string, value: string): string;
/** The bucket that an address names. */
export declare function bucketOf(url: URL): string;
/** The address with this bucket and partition; what is not given stays as it is. */
export declare function scoped(url: URL, { bucket, partition }: Scoping): URL;
