// Holds and waits of one name as bars over time.

import type { Ended, Entry, LockEvent } from '../data/types';
import { words } from './causes';
import { plain } from './names';
import { duration, exact } from './times';

/** A bar: from when to when, `null` while it goes on. */
export interface Bar {
  key: string;
  who: string;
  what: 'held' | 'waits' | 'assigned';
  kind: string;
  mode: string | null;
  token: number | null;
  from: number;
  to: number | null;
  end: string | null;
  reason: string | null;
}

/** A line of the picture: the bars of one party, which do not overlap. */
export interface Lane {
  who: string;
  bars: Bar[];
}

/**
 * What is there now, and what has ended, each once. Of the waits that were seen, only those that were seen to
 * end are shown: whether another one goes on, the entries say, as its end may have been missed.
 */
export function bars(entries: readonly Entry[], ended: readonly Ended[], waits: readonly Bar[]): Bar[] {
  const found = new Map<string, Bar>();
  for (const bar of waits) if (bar.to !== null) found.set(bar.key, bar);
  for (const bar of ended.flatMap(past)) found.set(bar.key, bar);
  for (const { clientId: who, kind, mode, state, fencingToken: token, since } of entries) {
    const what = state === 'held' ? 'held' : state === 'pending' ? 'waits' : 'assigned';
    const from = Date.parse(since);
    const key = what === 'waits' ? waitKey(who, from) : `${kind} ${token}`;
    found.set(key, { ...NOTHING, key, who, what, kind, mode, token, from });
  }
  return [...found.values()].sort((a, b) => a.from - b.from);
}

const NOTHING = { mode: null, token: null, to: null, end: null, reason: null };

const waitKey = (who: string, from: number) => `wait ${who} ${from}`;

/** The wait and the hold of what has ended; nothing of a refusal, which takes no time. */
function past({
  kind,
  label: who,
  mode,
  fencingToken: token,
  waitingSince,
  since,
  endedAt,
  end,
  reason,
}: Ended): Bar[] {
  if (end === 'refused' || kind === 'owner') return [];
  const [from, to] = [Date.parse(since), Date.parse(endedAt)];
  const wait = (at: number, until: number, why: string): Bar => {
    return { ...NOTHING, key: waitKey(who, at), who, what: 'waits', kind, mode, from: at, to: until, end: why };
  };
  if (token === null) return [wait(from, to, end)];
  const what = kind === 'assignment' ? 'assigned' : 'held';
  const hold: Bar = { key: `${kind} ${token}`, who, what, kind, mode, token, from, to, end, reason };
  return waitingSince === null ? [hold] : [wait(Date.parse(waitingSince), from, 'granted'), hold];
}

/** The waits that were seen, with what one event says of them; only the latest are left. */
export function withEvent(waits: readonly Bar[], event: LockEvent, most: number): readonly Bar[] {
  const { type, clientId: who = '', kind = 'web', mode = null } = event;
  const from = Date.parse(event.since);
  const key = waitKey(who, from);
  const begun: Bar = { ...NOTHING, key, who, what: 'waits', kind, mode, from };
  if (type === 'waiting') return [...waits, begun].slice(-most);
  const isOver = type === 'granted' || (type === 'ended' && event.fencingToken === undefined);
  if (!isOver || !waits.some((bar) => bar.key === key)) return waits;
  const end = type === 'granted' ? type : (event.end ?? type);
  return waits.map((bar) => (bar.key === key ? { ...bar, to: Date.parse(event.at), end } : bar));
}

/** The bars in lanes, those of the latest parties; bars of one party that overlap get a lane each. */
export function lanes(all: readonly Bar[], most: number): Lane[] {
  const found: Lane[] = [];
  /** The lanes of each party whose last bar has an end: no other one can take a bar. */
  const ending = new Map<string, Lane[]>();
  for (const bar of all) {
    const own = ending.get(bar.who) ?? [];
    const free = own.find((lane) => (lane.bars.at(-1)?.to ?? Number.POSITIVE_INFINITY) <= bar.from);
    const lane = free ?? { who: bar.who, bars: [] };
    if (!free) found.push(lane);
    lane.bars.push(bar);
    const others = own.filter((it) => it !== lane);
    ending.set(bar.who, bar.to === null ? others : [...others, lane]);
  }
  const latest = (lane: Lane) => lane.bars.at(-1)?.to ?? Number.POSITIVE_INFINITY;
  return found
    .map((lane, index) => ({ lane, index }))
    .sort((a, b) => (latest(a.lane) === latest(b.lane) ? a.index - b.index : latest(b.lane) - latest(a.lane)))
    .slice(0, most)
    .map(({ lane }) => lane);
}

/** The part of the window that a bar fills, in per cent; `undefined` outside of it. */
export function extent(bar: Bar, from: number, to: number): { left: number; width: number } | undefined {
  const start = Math.max(bar.from, from);
  const end = Math.min(bar.to ?? to, to);
  if (end < from || start > to) return undefined;
  const share = (ms: number) => (100 * ms) / Math.max(1, to - from);
  return { left: share(start - from), width: Math.max(0, share(end - start)) };
}

/** A bar in words, a line for each; what clients and operators have written is plain. */
export function describe({ who, what, kind, token, from, to, end, reason }: Bar, now: number): string {
  const parts = [
    `${plain(who)}: ${what === 'waits' ? 'waits' : words(kind)}${token === null ? '' : `, token ${token}`}`,
    `from ${exact(new Date(from).toISOString())}`,
    to === null ? `for ${duration(now - from)} until now` : `for ${duration(to - from)}`,
    end === null ? '' : `end: ${words(end)}`,
    reason ? plain(reason) : '',
  ];
  return parts.filter(Boolean).join('\n');
}
