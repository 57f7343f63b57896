// Words of the API in sentences.

const WORDS: Readonly<Record<string, string>> = {
  web: 'Web Lock',
  offline: 'offline lock',
  claim: 'claim',
  assignment: 'assignment',
  owner: 'owner',
  held: 'held',
  pending: 'waits',
  assigned: 'assigned',
};

/** A word of the API as people read it: `ownerExpired` is "owner expired". */
export function words(word: string): string {
  return (
    WORDS[word] ??
    word.replace(/([a-z])([A-Z])/g, (_, a: string, b: string) => `${a} ${b.toLowerCase()}`).replaceAll('_', ' ')
  );
}

const FORCED = new Set([
  'stolen',
  'broken',
  'expired',
  'overdue',
  'ownerExpired',
  'ownerOverdue',
  'maxHold',
  'superseded',
  'leaseExpired',
  'notReclaimed',
  'refused',
]);

/** Whether an end is one that its holder did not bring about. */
export function isForced(end: string): boolean {
  return FORCED.has(end);
}

/** A filter of the history. */
export interface EndFilter {
  end: string;
  kind?: string;
}

/**
 * The filters of the history that together select what a cause of losses counts. That for `lease` selects
 * the waits of silent clients, too, which stand there as never held.
 */
const ENDS_OF_LOSSES: Readonly<Record<string, readonly EndFilter[]>> = {
  stolen: [{ end: 'stolen' }],
  broken: [{ end: 'broken' }],
  max_hold: [{ end: 'maxHold' }],
  superseded: [{ end: 'superseded' }],
  lease: [{ end: 'leaseExpired' }],
  not_reclaimed: [{ end: 'notReclaimed' }],
  ttl: [
    { end: 'ownerExpired', kind: 'offline' },
    { end: 'expired', kind: 'claim' },
  ],
  max_life: [{ end: 'ownerOverdue', kind: 'offline' }],
};

/** The filters of the history for a cause of losses; none for a cause that is not known. */
export const endsOfLoss = (cause: string): readonly EndFilter[] => ENDS_OF_LOSSES[cause] ?? [];

const number = new Intl.NumberFormat('en');

/** A count with its digits in groups. */
export const count = (value: number): string => number.format(value);

/** A count of which only the beginning may be known. */
export const atLeast = (value: number, hasMore: boolean): string =>
  hasMore ? `more than ${count(value)}` : count(value);

/** What waits, as the end of a sentence. */
export function sayQueue(waiting: number, hasMore: boolean): string {
  if (waiting === 0 && !hasMore) return 'nothing waits';
  return `${atLeast(waiting, hasMore)} ${waiting === 1 && !hasMore ? 'request waits' : 'requests wait'}`;
}

/** A rate with as many digits as one reads. */
export const rate = (value: number): string => {
  return value >= 100 ? count(Math.round(value)) : value >= 10 ? value.toFixed(1) : String(Number(value.toFixed(2)));
};
