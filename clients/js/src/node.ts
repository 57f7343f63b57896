// What Node has and browsers have not. Where a part is missing, the function that needs it does nothing.

import type { Counter } from './bodies.js';
import type { WebSocketLike } from './types.js';

interface Channel {
  readonly hasSubscribers: boolean;
  publish(message: object): void;
}

interface Diagnostics {
  channel(name: string): Channel;
  subscribe(name: string, onmessage: (message: object) => void): void;
}

interface AsyncHooks {
  readonly AsyncLocalStorage: { snapshot?(): <R>(run: () => R) => R };
}

/** A channel between all threads of the process. */
export interface Broadcast {
  onmessage: ((event: { readonly data: unknown }) => void) | null;
  postMessage(message: object): void;
  unref(): void;
  close(): void;
}

interface Threads {
  readonly isMainThread: boolean;
  readonly threadId: number;
  readonly BroadcastChannel: new (name: string) => Broadcast;
}

interface Unreferable {
  unref?(): void;
}

interface Process {
  getBuiltinModule?(name: string): unknown;
  on?(event: string, listener: () => void): void;
}

const { process } = globalThis as { process?: Process };

/** The module of Node with this name. */
export function builtin<M>(name: string): M | undefined {
  return process?.getBuiltinModule?.(name) as M | undefined;
}

const isNode = builtin('node:process') !== undefined;
const hooks = builtin<AsyncHooks>('node:async_hooks');
const diagnostics = builtin<Diagnostics>('node:diagnostics_channel');

/** Threads of this process; undefined where there are none that could end without their sockets saying so. */
export const threads = builtin<Threads>('node:worker_threads');

/** A number that the other threads may read, even once this one has ended. */
export function newCounter(): Counter {
  const isShared = threads !== undefined && !threads.isMainThread;
  return new Float64Array(isShared ? new SharedArrayBuffer(8) : new ArrayBuffer(8)) as Counter;
}

/** Gives what runs a function in the asynchronous context of this call, that of AsyncLocalStorage. */
export function captureContext(): <R>(run: () => R) => R {
  return hooks?.AsyncLocalStorage.snapshot?.() ?? ((run) => run());
}

/** The events of a request, by the names that Node's own locks use. */
export type RequestEvent = 'start' | 'grant' | 'miss' | 'end';

const requestChannels = (['start', 'grant', 'miss', 'end'] as const).map(
  (event) => [event, diagnostics?.channel(`locks.request.${event}`)] as const,
);
const channels = Object.fromEntries(requestChannels) as Record<RequestEvent, Channel | undefined>;

/** Publishes an event of a request to the subscribers of `diagnostics_channel`, if there are any. */
export function publish(event: RequestEvent, message: () => object): void {
  const channel = channels[event];
  if (channel?.hasSubscribers) channel.publish(message());
}

/** Keeps the process from ending until the function that it returns is called. */
export function keepAlive(): () => void {
  if (!isNode) return () => {};
  const timer = setInterval(() => {}, 2 ** 31 - 1);
  return () => clearInterval(timer);
}

/** What is notified of the end of the process or worker. */
export interface Leaver {
  /** Nothing keeps the process any more: it ends unless this does. */
  linger(): void;
  /** The process exits: nothing asynchronous is done after this. */
  leave(): void;
}

const leavers = new Set<Leaver>();
let isWatching = false;

/** From now on notifies it. Returns the function that ends this. */
export function onExit(leaver: Leaver): () => void {
  if (isNode && !isWatching) {
    isWatching = true;
    process?.on?.('beforeExit', () => {
      for (const each of leavers) each.linger();
    });
    process?.on?.('exit', () => {
      for (const each of leavers) each.leave();
    });
  }
  leavers.add(leaver);
  return () => leavers.delete(leaver);
}

/** That of the protocol; the headers of our handshakes are known by it. */
export const SUBPROTOCOL = 'lockhouse.v1';
let isSubscribed = false;

/** Lets the process end although this socket is open: what is held or pending keeps it by itself. */
export function unreferenced(socket: WebSocketLike): WebSocketLike {
  if (!isNode) return socket;
  // The package ws has its request here, which gets the connection later.
  const { _req: request } = socket as { _req?: { once?(event: string, listener: (of: Unreferable) => void): void } };
  request?.once?.('socket', (connection) => connection.unref?.());
  // The WebSocket of Node shows its connection nowhere else.
  if (!isSubscribed) {
    isSubscribed = true;
    diagnostics?.subscribe('undici:client:sendHeaders', (message) => {
      const { headers, socket: connection } = message as { headers?: unknown; socket?: Unreferable };
      if (String(headers).includes(SUBPROTOCOL)) connection?.unref?.();
    });
  }
  return socket;
}
