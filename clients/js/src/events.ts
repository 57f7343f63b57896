import { instantIfAny } from './answers.js';
import { Backoff } from './backoff.js';
import { type Caller, NOT_LOCKHOUSE, notLockhouse, ofQuestion } from './caller.js';
import { broken, optional, toBoolean, toText } from './checks.js';
import { isAbortSignal } from './conversions.js';
import { type ProblemBody, ProblemError, UnavailableError, UnreachableError } from './problems.js';
import type { LockMode } from './types.js';
import { checkedForUrl } from './url.js';

/** Which events are meant, and from where on. */
export interface EventsOptions {
  /** Only events of this name. */
  name?: string | undefined;
  /** Only events of names that begin with this. */
  prefix?: string | undefined;
  /** Only events of this discipline. */
  kind?: 'web' | 'offline' | 'claim' | undefined;
  /** Whether the present state comes first, where there is no `lastEventId`. */
  state?: boolean | undefined;
  /** Goes on behind this event. If what came after it is not kept any more, a `gap` comes first. */
  lastEventId?: string | undefined;
  /** Ends the events: what waits for the next one rejects with the reason. */
  signal?: AbortSignal | undefined;
}

/** Something that has happened in a bucket. Members that do not apply are undefined. */
export interface LockEvent {
  readonly type: 'waiting' | 'granted' | 'ended' | 'refused' | 'assigned' | 'unassigned' | 'opened' | 'closed';
  /** Its place, behind which `lastEventId` goes on. */
  readonly id: string;
  readonly at: Date;
  readonly kind: 'web' | 'offline' | 'claim';
  readonly name?: string;
  readonly mode?: LockMode;
  /** The client id of a Web Lock, the label of an owner, or the claimant. */
  readonly clientId: string;
  readonly owner?: string;
  /** An `ended` without one is the end of a wait. */
  readonly fencingToken?: number;
  /** Since when it waits or waited, of `waiting` and `granted`; since when it was held, of `ended`. */
  readonly since: Date;
  /** Why it ended, as in the history. */
  readonly end?: string;
  /** Why it was refused, in a word. */
  readonly cause?: string;
  /** The operator that broke it, and the operator's words. */
  readonly by?: string;
  readonly reason?: string;
}

/** What is held or waits at present. */
export interface StateEntry {
  readonly name: string;
  readonly kind: 'web' | 'offline' | 'claim';
  readonly state: 'held' | 'pending';
  readonly mode: LockMode;
  readonly clientId: string;
  readonly owner?: string;
  readonly since: Date;
  readonly expiresAt?: Date;
  readonly place?: number;
  readonly fencingToken?: number;
  readonly metadata?: string;
}

/** Events are missing here. The present state comes next. */
export interface GapEvent {
  readonly type: 'gap';
}

/** All that is held and waits, of what was asked for. */
export interface StateEvent {
  readonly type: 'state';
  readonly id: string;
  readonly entries: readonly StateEntry[];
}

export type BucketEvent = LockEvent | GapEvent | StateEvent;

/** The members of {@link EventsOptions}, with their checks. */
export const EVENTS_OPTIONS = {
  name: optional(toText),
  prefix: optional(toText),
  kind: optional(toKind),
  state: optional(toBoolean),
  lastEventId: optional(toText),
  signal: optional((field: string, value: unknown): AbortSignal => {
    if (isAbortSignal(value)) return value;
    throw broken(field, value, 'an AbortSignal');
  }),
};

const KINDS = ['web', 'offline', 'claim'] as const;

function toKind(field: string, value: unknown): (typeof KINDS)[number] {
  const kind = KINDS.find((each) => each === value);
  if (kind !== undefined) return kind;
  throw broken(field, value, `one of ${KINDS.join(', ')}`);
}

/** The number of streams that end at once and bring nothing, after which no lockhouse server is there. */
const EMPTY_STREAMS = 5;

/** A stream that lasts this long has not ended at once. */
const GOOD_MS = 1000;

/** The server writes something at least each 15 s. A stream that is silent for this long is given up. */
const SILENCE_MS = 40_000;

/**
 * The events of a bucket, one after the other, over as many connections as it takes. Throws the ProblemError
 * of a server that will not have it, and the reason of an abort.
 */
export async function* readEvents(caller: Caller, options: EventsOptions): AsyncGenerator<BucketEvent, void, void> {
  const { signal } = options;
  const backoff = new Backoff();
  let last = options.lastEventId;
  let hasBegun = false;
  let emptyStreams = 0;
  for (;;) {
    let pauseMs = 0;
    try {
      const stream = await caller.open(pathOf(options, last), SILENCE_MS, signal);
      const since = performance.now();
      try {
        for await (const { id, type, data } of records(stream.chunks())) {
          const event = eventOf(type, id, data);
          hasBegun ||= id !== '' || data !== '';
          backoff.reset();
          // The id of a comment counts as well: up to there nothing is missing.
          if (id !== '') last = id;
          if (event) yield event;
        }
      } finally {
        stream.close();
      }
      const isEmpty = !hasBegun && performance.now() - since < GOOD_MS;
      if (isEmpty && ++emptyStreams === EMPTY_STREAMS) throw notLockhouse(200, 'its streams of events bring none');
    } catch (error) {
      if (!(error instanceof ProblemError) || !isTemporary(error, caller, hasBegun)) throw error;
      pauseMs = (error instanceof UnavailableError && error.retryAfterMs) || 0;
    }
    // A stream that has begun goes on where it ended; one that has not begins anew.
    await caller.pause(pauseMs + backoff.nextMs(), signal);
  }
}

/** Where events have come before, a page in their place is that of a proxy. */
function isTemporary(error: ProblemError, caller: Caller, hasBegun: boolean): boolean {
  const { code, status } = error;
  if (code === NOT_LOCKHOUSE) return hasBegun;
  const isAway = error instanceof UnavailableError || error instanceof UnreachableError || status >= 502;
  return isAway || code === 'quota_exceeded' || (code === 'unauthenticated' && caller.mayChangeKey);
}

function pathOf({ name, prefix, kind, state }: EventsOptions, last: string | undefined): string {
  const query: string[] = [];
  const put = (key: string, value: string | undefined) => {
    if (value !== undefined) query.push(`${key}=${checkedForUrl(key, value)}`);
  };
  put('name', name);
  put('prefix', prefix);
  put('kind', kind);
  if (last !== undefined) put('lastEventId', last);
  else if (state) put('state', 'true');
  return query.length === 0 ? 'events' : `events?${query.join('&')}`;
}

interface StreamRecord {
  readonly id: string;
  readonly type: string;
  readonly data: string;
}

/**
 * The records of a stream of server-sent events, also those without data.
 * https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
 */
async function* records(chunks: AsyncIterable<string>): AsyncGenerator<StreamRecord, void, void> {
  let rest = '';
  let record = { id: '', type: '', data: '' };
  /** The parts of a state that has not come whole. */
  let parts: unknown[] = [];
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') {
        const part = record.type === 'state' ? partOf(record.data) : undefined;
        if (part) parts = [...parts, ...part.entries];
        if (!part) yield record;
        else if (part.isLast) {
          yield { ...record, data: JSON.stringify({ entries: parts }) };
          parts = [];
        }
        record = { id: '', type: '', data: '' };
        continue;
      }
      const at = line.indexOf(':');
      const [field, text] = at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + 1).replace(/^ /, '')];
      if (field === 'id') record.id = text;
      else if (field === 'event') record.type = text;
      else if (field === 'data') record.data += text;
    }
  }
}

function partOf(data: string): { entries: unknown[]; isLast: boolean } {
  const { entries, last } = parsed(data) as { entries?: unknown[]; last?: boolean };
  return { entries: entries ?? [], isLast: last === true };
}

function parsed(data: string): object {
  return ofQuestion(() => {
    let object: unknown;
    try {
      object = JSON.parse(data);
    } catch {
      // The engine's own words may quote the event.
      throw new TypeError('an event is no JSON');
    }
    if (typeof object !== 'object' || object === null) throw new TypeError('an event is no object');
    return object;
  });
}

/** The event of a record; none of a comment, and of kinds that this client does not know. */
function eventOf(type: string, id: string, data: string): BucketEvent | undefined {
  if (data === '') return undefined;
  const raw = parsed(data) as ProblemBody & { entries?: ProblemBody[] };
  if (type === 'gap') return { type };
  if (type === 'state') return { type, id, entries: (raw.entries ?? []).map(entryOf) };
  if (!TYPES.has(type)) return undefined;
  return { ...withDates(raw, ['at', 'since']), type, id } as unknown as LockEvent;
}

const TYPES = new Set(['waiting', 'granted', 'ended', 'refused', 'assigned', 'unassigned', 'opened', 'closed']);

function entryOf(raw: ProblemBody): StateEntry {
  const there = Object.fromEntries(Object.entries(raw).filter(([, value]) => value !== null)) as ProblemBody;
  return withDates(there, ['since', 'expiresAt']) as unknown as StateEntry;
}

/** The same with instants in the place of their texts. */
function withDates(raw: ProblemBody, keys: readonly string[]): Record<string, unknown> {
  const dates = keys.map((key) => [key, instantIfAny(raw, key)] as const).filter(([, date]) => date !== undefined);
  return { ...raw, ...Object.fromEntries(dates) };
}
