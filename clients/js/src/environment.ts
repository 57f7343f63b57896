import { domError } from './errors.js';

/** Notified when the page enters the back/forward cache, or is unloaded, and when it is shown again. */
export interface Sleeper {
  sleep(): void;
  wake(): void;
}

interface Scope {
  readonly document?: Document;
  readonly isSecureContext?: boolean;
  readonly origin?: string;
  readonly localStorage?: Storage;
}

const scope = globalThis as Scope;
// The global object of a frame keeps its document after the frame is removed or navigated, and the document
// then has no window.
const ownDocument: Document | undefined = scope.document;
const sleepers = new Set<Sleeper>();
let isHidden = false;
let storageDenied: boolean | undefined;

/**
 * The checks that come first in request() and query(): a fully active document, then a lock manager that can
 * be obtained.
 */
export function checkEnvironment(): void {
  if (!isFullyActive()) throw domError('InvalidStateError', 'The document is not fully active.');
  if (isStorageDenied()) throw domError('SecurityError', 'Access to the Locks API is denied in this context.');
}

/**
 * Whether this context is one in which `navigator.locks` exists. Where there is no such notion, as in Node,
 * it is.
 */
export function isSecure(): boolean {
  return scope.isSecureContext !== false;
}

/**
 * Whether the context may have storage, and so locks: an opaque origin has none, and the user may have
 * forbidden it.
 */
export function isStorageDenied(): boolean {
  storageDenied ??= scope.origin === 'null' || (ownDocument !== undefined && throwsOnStorage());
  return storageDenied;
}

/** From now on notifies it when the page goes and comes. Returns the function that ends this. */
export function watchLifecycle(sleeper: Sleeper): () => void {
  if (ownDocument && sleepers.size === 0) {
    globalThis.addEventListener('pagehide', onPageHide);
    globalThis.addEventListener('pageshow', onPageShow);
  }
  sleepers.add(sleeper);
  return () => sleepers.delete(sleeper);
}

function isFullyActive(): boolean {
  return ownDocument === undefined || (ownDocument.defaultView !== null && !isHidden);
}

function throwsOnStorage(): boolean {
  try {
    return scope.localStorage === null;
  } catch {
    return true;
  }
}

function onPageHide(): void {
  isHidden = true;
  for (const sleeper of [...sleepers]) sleeper.sleep();
}

function onPageShow(): void {
  isHidden = false;
  for (const sleeper of [...sleepers]) sleeper.wake();
}
