import { type Client, type ConnectOptions, LockhouseClient } from './connect.js';
import { isSecure } from './environment.js';
import { Lock } from './lock.js';
import { LockManager, newLockManager } from './lock-manager.js';
import { installStorageBuckets } from './storage-buckets.js';
import type { ServerUrls } from './url.js';
import { brandCheck, defineAccessor, defineGlobal } from './webidl.js';

type Constructor = { readonly prototype: object };

interface Scope {
  navigator?: object;
  Navigator?: Constructor;
  WorkerNavigator?: Constructor;
}

/**
 * Connects as {@link connect} does and puts the lock manager on `navigator.locks` of this window, worker or
 * process, and the classes LockManager and Lock on its global object, in place of native ones. In an insecure
 * context nothing is put anywhere.
 *
 * The object on `navigator.locks` has the specification's members only; the client that is returned has the
 * extended ones.
 */
export function install(url: ServerUrls, options: ConnectOptions = {}): Client {
  const client = new LockhouseClient(url, options);
  if (!isSecure()) return client;
  defineGlobal('LockManager', LockManager);
  defineGlobal('Lock', Lock);
  const locks = newLockManager(client.source(client.name));
  const prototype = navigatorPrototype();
  // The navigator of another realm of this page answers for itself.
  const own = (globalThis as Scope).navigator;
  const checkBrand = brandCheck(prototype);
  defineAccessor(prototype, 'locks', function (this: unknown) {
    checkBrand(this);
    return this === own ? locks : (this as { locks: unknown }).locks;
  });
  installStorageBuckets(client);
  return client;
}

function navigatorPrototype(): object {
  const scope = globalThis as Scope;
  const Platform = scope.Navigator ?? scope.WorkerNavigator ?? defineNavigator();
  return Platform.prototype;
}

/** Node 20 has no navigator. */
function defineNavigator(): Constructor {
  class Navigator {}
  Object.defineProperty(Navigator.prototype, Symbol.toStringTag, { value: 'Navigator', configurable: true });
  defineGlobal('Navigator', Navigator);
  defineGlobal('navigator', new Navigator());
  return Navigator;
}
