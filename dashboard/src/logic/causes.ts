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

const number = new Intl.NumberFormat('en');

/** A count with its digits in groups. */
export const count = (value: number): string => number.format(value);

/** A rate with as many digits as one reads. */
export const rate = (value: number): string => {
  return value >= 100 ? count(Math.round(value)) : value >= 10 ? value.toFixed(1) : String(Number(value.toFixed(2)));
};
