/** What of the options decides whom a connection shares its locks with. */
export interface Scoping {
    readonly bucket?: string | undefined;
    readonly partition?: string | undefined;
}
/** Reads the address of a server: http(s) or ws(s); the path `/` stands for `/v1/ws`; the query is kept. */
export declare function serverUrl(address: string | URL): URL;
/** The bucket that an address names. */
export declare function bucketOf(url: URL): string;
/** Gives the value back if it is as short as the protocol has it: the server would refuse a longer one again and again. */
export declare function fitting(field: string, value: string): string;
/** The address with this bucket and partition; what is not given stays as it is. */
export declare function scoped(url: URL, { bucket, partition }: Scoping): URL;
