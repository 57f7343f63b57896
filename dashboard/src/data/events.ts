// The events of a bucket. They are read by fetch, as an EventSource sends no header with a key.

import { effect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { writeSearch } from '../logic/url';
import { access, inBucket, type Query } from './api';
import { live } from './live';
import { follow } from './stream';
import type { LockEvent } from './types';

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
