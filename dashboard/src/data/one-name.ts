// Who holds one name, and who waits for it.

import type { Entry, Page } from './types';

/** So many entries come with one answer. */
const LIMIT = 1000;

/** The holders and the requests of a name; of more than one answer has, only the first. */
export interface EntriesOfName {
  holders: Entry[];
  hasMoreHolders: boolean;
  /** In the order of grant. */
  queue: Entry[];
  hasMoreQueue: boolean;
  /** For how long holders from before a restart are still waited for. */
  recoveringMs: number;
}

/** A question about the entries of the bucket. */
export interface EntryQuery {
  name: string;
  limit: number;
  state?: Entry['state'];
}

/**
 * Asks for the entries of a name by `ask`: in one answer where that has all of them, else for those of each
 * state by themselves, as the holders may fill an answer before the first request comes.
 */
export async function loadName(name: string, ask: (query: EntryQuery) => Promise<Page<Entry>>): Promise<EntriesOfName> {
  const all = await ask({ name, limit: LIMIT });
  const { recoveringMs = 0 } = all;
  const isPending = (entry: Entry) => entry.state === 'pending';
  if (all.next === null) {
    const holders = all.entries.filter((entry) => !isPending(entry));
    const queue = inOrder(all.entries.filter(isPending));
    return { holders, hasMoreHolders: false, queue, hasMoreQueue: false, recoveringMs };
  }
  const [held, pending] = await Promise.all([
    ask({ name, state: 'held', limit: LIMIT }),
    ask({ name, state: 'pending', limit: LIMIT }),
  ]);
  const assigned = all.entries.filter((entry) => entry.state === 'assigned');
  return {
    holders: [...held.entries, ...assigned],
    hasMoreHolders: held.next !== null,
    queue: inOrder(pending.entries),
    hasMoreQueue: pending.next !== null,
    recoveringMs,
  };
}

const inOrder = (queue: readonly Entry[]) => [...queue].sort((a, b) => (a.place ?? 0) - (b.place ?? 0));
