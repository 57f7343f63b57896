// Whether the caller may operate in the present bucket, before anything is offered that needs it.

import { useEffect } from 'preact/hooks';
import { access, learnOperate, mayOperate } from './api';
import { bucket } from './place';

/**
 * Asks the server once for each key and bucket: the list of sessions needs the same permission as a break.
 */
export function usePermission(): void {
  const of = bucket.value;
  const turn = access.turn.value;
  useEffect(() => {
    // Without a key the server asks for one, or everything is permitted.
    if (!access.hasKey.peek() || mayOperate(of) !== undefined) return;
    const ended = new AbortController();
    void learnOperate(of, ended.signal);
    return () => ended.abort();
  }, [of, turn]);
}

/** Whether what needs the permission to operate is offered. */
export const isOperateOffered = (): boolean => mayOperate(bucket.value) ?? !access.hasKey.value;
