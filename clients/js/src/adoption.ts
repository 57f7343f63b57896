// The sessions of worker threads, to be ended by another thread. A thread of Node that is terminated cannot
// say goodbye, and its sockets break without a close, so that the server would keep its locks for their
// lease. A thread whose worker is adopted announces its sessions to its process, over a channel of the
// threads.

import type { Identity } from './bodies.js';
import { type Broadcast, threads } from './node.js';

/** A worker of Node, as far as it matters here. */
export interface Adoptable {
  readonly threadId: number;
  once(event: 'exit', listener: () => void): unknown;
}

/** A session, and the address at which it was made. */
interface Located extends Identity {
  readonly url: string;
}

type Message =
  /** The clients of this thread are to announce their sessions. */
  | { readonly type: 'adopt'; readonly thread: number }
  /** There is a client in this thread. */
  | { readonly type: 'present'; readonly thread: number }
  /** A client of this thread has this session now, or none. */
  | { readonly type: 'session'; readonly thread: number; readonly client: number; readonly located?: Located };

const CHANNEL = 'lockhouse.threads';
const own = new Map<number, Located>();
let present: Broadcast | undefined;
let isAdopted = false;
let lastClient = 0;

function openChannel(onmessage: (message: Message) => void): Broadcast | undefined {
  if (!threads) return undefined;
  const channel = new threads.BroadcastChannel(CHANNEL);
  channel.unref();
  channel.onmessage = ({ data }) => onmessage(data as Message);
  return channel;
}

/**
 * Begins to announce the sessions of one client of this thread, if it is a worker. Returns what is to be
 * called with each session, and with undefined once there is none.
 */
export function announceSessions(url: string): (identity: Identity | undefined) => void {
  if (!threads || threads.isMainThread) return () => {};
  const thread = threads.threadId;
  lastClient += 1;
  const client = lastClient;
  const announce = (each: number) => {
    const located = own.get(each);
    present?.postMessage({ type: 'session', thread, client: each, ...(located && { located }) } satisfies Message);
  };
  if (!present) {
    present = openChannel((message) => {
      if (message.type !== 'adopt' || message.thread !== thread) return;
      isAdopted = true;
      for (const each of own.keys()) announce(each);
    });
    present?.postMessage({ type: 'present', thread } satisfies Message);
  }
  return (identity) => {
    if (identity) own.set(client, { ...identity, url });
    else own.delete(client);
    if (isAdopted) announce(client);
  };
}

/** Calls back with each session that the thread of this worker leaves. Returns the function that ends this. */
export function watchSessions(worker: Adoptable, onleft: (url: string, identity: Identity) => void): () => void {
  // It is -1 once the thread has ended.
  const thread = worker.threadId;
  const sessions = new Map<number, Located>();
  const channel = openChannel((message) => {
    if (message.thread !== thread) return;
    if (message.type === 'present') channel?.postMessage({ type: 'adopt', thread } satisfies Message);
    if (message.type !== 'session') return;
    if (message.located) sessions.set(message.client, message.located);
    else sessions.delete(message.client);
  });
  channel?.postMessage({ type: 'adopt', thread } satisfies Message);
  let isOver = false;
  const stop = () => {
    isOver = true;
    channel?.close();
  };
  worker.once('exit', () => {
    // The last that the thread has announced is still to come.
    setTimeout(() => {
      if (isOver) return;
      stop();
      for (const { url, ...identity } of sessions.values()) onleft(url, identity);
    });
  });
  return stop;
}
