import type { LockhouseClient } from './connect.js';
/**
 * Gives the storage buckets of the browser their `locks`, where there are such buckets: each a lock manager
 * of its own.
 *
 * See https://wicg.github.io/storage-buckets/
 */
export declare function installStorageBuckets(client: LockhouseClient): void;
