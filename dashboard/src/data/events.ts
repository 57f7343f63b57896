// The stream of events of a bucket. It is read by fetch, as an EventSource sends no header with a key.

import { effect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { EventReader } from '../logic/sse';
import { writeSearch } from '../logic/url';
import { access, headers, inBucket, type Query } from './api';
import { live } from './live';
import type { LockEvent } from './types';

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;

/** Events that come within this time are handed on together. */
const GATHER_MS = 250;

/**
 * Follows the events of a bucket while the page is live and seen, and hands them on in groups. Another key is
 * another stream.
 */
export function useEvents(bucket: string, query: Query | undefined, onEvents: (events: LockEvent[]) => void): void {
  const latest = useRef(onEvents);
  latest.current = onEvents;
  const path = query && inBucket(bucket, 'events') + writeSearch(query);
  const turn = access.turn.value;
  useEffect(() => {
    if (path === undefined) return;
    let following: AbortController | undefined;
    const update = () => {
      const isWanted = live.peek() && document.visibilityState === 'visible';
      if (isWanted && !following) {
        following = new AbortController();
        void follow(path, (events) => latest.current(events), following.signal);
      } else if (!isWanted) {
        following?.abort();
        following = undefined;
      }
    };
    const stop = effect(() => {
      live.value;
      update();
    });
    document.addEventListener('visibilitychange', update);
    return () => {
      stop();
      document.removeEventListener('visibilitychange', update);
      following?.abort();
    };
  }, [path, turn]);
}

async function follow(path: string, onEvents: (events: LockEvent[]) => void, signal: AbortSignal): Promise<void> {
  let last = '';
  let pauseMs = FIRST_PAUSE_MS;
  while (!signal.aborted) {
    try {
      const from = last === '' ? {} : { 'Last-Event-ID': last };
      const response = await fetch(path, {
        headers: { ...headers(), ...from },
        cache: 'no-store',
        credentials: 'omit',
        signal,
      });
      // Without the permission, or on a server without events, polls have to do until there is another key.
      if ([401, 403, 404].includes(response.status)) {
        // A body that is not read would keep its connection.
        await response.body?.cancel();
        return;
      }
      if (response.ok && response.body) {
        pauseMs = FIRST_PAUSE_MS;
        await readAll(response.body, (id) => (last = id), onEvents, signal);
      }
    } catch {
      // The pause below is the answer to whatever ended the stream.
    }
    await pause(pauseMs, signal);
    pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
  }
}

async function readAll(
  body: ReadableStream<Uint8Array>,
  onId: (id: string) => void,
  onEvents: (events: LockEvent[]) => void,
  signal: AbortSignal,
): Promise<void> {
  const reader = new EventReader();
  const decoder = new TextDecoder();
  const stream = body.getReader();
  let gathered: LockEvent[] = [];
  const hand = () => {
    const events = gathered;
    gathered = [];
    if (!signal.aborted) onEvents(events);
  };
  for (;;) {
    const { done, value } = await stream.read();
    if (done) return;
    for (const event of reader.read(decoder.decode(value, { stream: true }))) {
      if (gathered.length === 0) setTimeout(hand, GATHER_MS);
      gathered.push({ type: event.kind, ...JSON.parse(event.data) });
    }
    onId(reader.lastId);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    const end = () => {
      clearTimeout(timer);
      resolve();
    };
    signal.addEventListener('abort', end, { once: true });
  });
}
