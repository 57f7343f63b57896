/** A random UUID (version 4), also where crypto.randomUUID is missing, as in insecure contexts. */
export declare function randomId(): string;
