// What pages show goes on by itself, unless it is paused or the page is not seen.

import { effect, type ReadonlySignal, signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { offsetAfter } from '../logic/times';
import { access, fault, type Problem } from './api';

/** Whether what is shown goes on. */
export const live = signal(true);

/** The server's present, in milliseconds, as far as it is known; it stands still while paused. */
export const now = signal(Date.now());

/** Grows when everything that is shown is to be asked for again. */
export const wanted = signal(0);

/** How far the server's clock is from ours, as far as it is known. */
let offset: number | undefined;

/** The server's present by the clock of this page. */
const present = () => Date.now() + (offset ?? 0);

/** Notes an instant of the server from an answer that has come now, and took so long. */
export function noteServerTime(instant: string, tookMs: number): void {
  offset = offsetAfter(offset, Date.parse(instant), tookMs, Date.now());
}

setInterval(() => {
  if (live.value && document.visibilityState === 'visible') now.value = present();
}, 1000);

/** Asks for all that is shown again, paused or not. */
export function refresh(): void {
  now.value = present();
  wanted.value += 1;
}

/** What was asked for again and again. */
export interface Polled<T> {
  value: T | undefined;
  problem: Problem | undefined;
  /**
   * Whether there is no `value` yet, it is of another question than is asked now, or the last answer was a
   * problem.
   */
  isStale: boolean;
}

export const POLL_MS = 2000;

/** Never more than this part of the time is spent on one question, but for the longest pauses. */
const SHARE = 8;

/** A question that took very long is asked again after this time. */
const LONGEST_PAUSE_MS = 10_000;

/** A server that asks for a longer pause gets this one. */
const LONGEST_RETRY_MS = 30_000;

/** After what was seen to happen, a question is asked again this soon at the earliest. */
const NUDGE_MS = 750;

/**
 * Asks `load` at once where `key` or the caller changes, and then again and again; sooner where `nudge`
 * grows. What one caller was answered is not shown to the next.
 */
export function usePolled<T>(
  key: string,
  load: (signal: AbortSignal) => Promise<T>,
  everyMs = POLL_MS,
  nudge?: ReadonlySignal<number>,
): Polled<T> {
  const turn = access.turn.value;
  const [state, setState] = useState<{ turn: number; key: string; value: T | undefined; problem: Problem | undefined }>(
    {
      turn,
      key,
      value: undefined,
      problem: undefined,
    },
  );
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const ended = new AbortController();
    const ask = async () => {
      try {
        const value = await latest.current(ended.signal);
        if (!ended.signal.aborted) setState({ turn, key, value, problem: undefined });
        return 0;
      } catch (error) {
        if (ended.signal.aborted) return 0;
        const problem = fault(error);
        const isSame = (before: typeof state) => before.turn === turn && before.key === key;
        setState((before) => ({ turn, key, value: isSame(before) ? before.value : undefined, problem }));
        return Math.min(problem.retryAfterMs ?? 0, LONGEST_RETRY_MS);
      }
    };
    return again(ask, everyMs, ended, nudge);
  }, [turn, key, everyMs, nudge]);
  const isOf = state.turn === turn && state.key === key;
  return {
    value: state.turn === turn ? state.value : undefined,
    problem: isOf ? state.problem : undefined,
    isStale: !isOf || state.value === undefined || state.problem !== undefined,
  };
}

/**
 * Calls `ask` now, later, after a nudge, once the page is seen again and for each refresh, one at a time;
 * returns what ends that.
 */
function again(
  ask: () => Promise<number>,
  everyMs: number,
  ended: AbortController,
  nudge?: ReadonlySignal<number>,
): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isBusy = false;
  let isWanted = false;
  let isNudged = false;
  /** The instant before which nothing but a refresh asks. */
  let soonest = 0;
  const turn = async () => {
    clearTimeout(timer);
    if (isBusy) {
      isWanted = true;
      return;
    }
    isBusy = true;
    isNudged = false;
    const began = performance.now();
    const retry = await ask();
    const pause = Math.max(retry, Math.min(SHARE * (performance.now() - began), LONGEST_PAUSE_MS));
    isBusy = false;
    if (ended.signal.aborted) return;
    soonest = performance.now() + Math.max(NUDGE_MS, pause);
    if (isWanted) {
      isWanted = false;
      void turn();
    } else if (isNudged) {
      askSoon();
    } else {
      timer = setTimeout(wake, Math.max(everyMs, pause));
    }
  };
  const wake = () => {
    if (live.peek() && !access.isRefused.peek() && document.visibilityState === 'visible') void turn();
    else timer = setTimeout(wake, 250);
  };
  const askSoon = () => {
    clearTimeout(timer);
    timer = setTimeout(wake, Math.max(0, soonest - performance.now()));
  };
  const onVisible = () => {
    if (!isBusy && document.visibilityState === 'visible') askSoon();
  };
  document.addEventListener('visibilitychange', onVisible);
  const seen = wanted.peek();
  const stop = effect(() => {
    if (wanted.value !== seen) void turn();
  });
  const first = nudge?.peek();
  const stopNudges = effect(() => {
    if (!nudge || nudge.value === first || isNudged) return;
    isNudged = true;
    if (!isBusy) askSoon();
  });
  void turn();
  return () => {
    ended.abort();
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', onVisible);
    stop();
    stopNudges();
  };
}
