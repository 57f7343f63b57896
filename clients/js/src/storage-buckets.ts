import type { LockhouseClient } from './connect.js';
import { type LockManager, newLockManager } from './lock-manager.js';
import { brandCheck, defineAccessor } from './webidl.js';

interface StorageBucket {
  readonly name: string;
}

/**
 * Gives the storage buckets of the browser their `locks`, where there are such buckets: each a lock manager
 * of its own.
 *
 * See https://wicg.github.io/storage-buckets/
 */
export function installStorageBuckets(client: LockhouseClient): void {
  const { StorageBucket } = globalThis as { StorageBucket?: { readonly prototype: object } };
  if (!StorageBucket) return;
  const managers = new WeakMap<object, LockManager>();
  const checkBrand = brandCheck(StorageBucket.prototype, 'name');
  defineAccessor(StorageBucket.prototype, 'locks', function (this: unknown) {
    checkBrand(this);
    const bucket = this as StorageBucket;
    const existing = managers.get(bucket);
    if (existing) return existing;
    const locks = newLockManager(client.source(serverBucket(client.name, bucket.name)));
    managers.set(bucket, locks);
    return locks;
  });
}

/**
 * The bucket of the server for a storage bucket. Names of storage buckets have no slash, so the last one in
 * the result always stands between the two, and no two pairs give the same.
 */
function serverBucket(base: string, name: string): string {
  return `storage-bucket/${base}/${name}`;
}
