import { useSignal } from '@preact/signals';
import { useMemo, useState } from 'preact/hooks';
import { call, inBucket } from '../data/api';
import { holdOf } from '../data/breaking';
import { useEvents } from '../data/events';
import { POLL_MS, usePolled } from '../data/live';
import { type EntriesOfName, loadName } from '../data/one-name';
import { isOperateOffered } from '../data/permission';
import { bucket, linkTo, place } from '../data/place';
import type { Ended, Entry, LockEvent, Page } from '../data/types';
import { atLeast, count, sayQueue } from '../logic/causes';
import { plainLines } from '../logic/names';
import { bucketOption } from '../logic/shell';
import { type Bar, bars, withEvent } from '../logic/timeline';
import { askToBreak, BreakButton } from '../parts/break';
import { Empty, EndMark, KindMark, ModeMark } from '../parts/marks';
import { Name, Text } from '../parts/name';
import { Notice, Recovery } from '../parts/notice';
import { Ago, Between, Until } from '../parts/time';
import { Timeline } from '../parts/timeline';
import { keyOfEnded } from './history';
import { keyOf, Who } from './locks';

const NONE: Ended[] = [];
const ENDED = 100;
const WAITS = 200;

/** So many holders and requests are listed. */
const LISTED = 100;

/** Everything of one name. */
export function NamePage() {
  const { name = '' } = place.value.params;
  return <OneName key={JSON.stringify(name)} name={name} />;
}

function OneName({ name }: { name: string }) {
  const [waits, setWaits] = useState<readonly Bar[]>([]);
  const happened = useSignal(0);
  const { value, problem, isStale } = usePolled(
    `name ${JSON.stringify(name)}`,
    (signal) =>
      loadName(name, (query) =>
        call<Page<Entry>>('GET', inBucket(bucket.value, 'query'), { ...query }, undefined, signal),
      ),
    POLL_MS,
    happened,
  );
  const ended = usePolled(
    `ended ${JSON.stringify(name)}`,
    (signal) => call<Page<Ended>>('GET', inBucket(bucket.value, 'history'), { name, limit: ENDED }, undefined, signal),
    4000,
    happened,
  );
  useEvents(bucket.value, { name }, (events: LockEvent[]) => {
    setWaits((before) => events.reduce((all, event) => withEvent(all, event, WAITS), before));
    happened.value += 1;
  });
  const known = value ?? NOTHING;
  const past = ended.value?.entries ?? NONE;
  const drawn = useMemo(() => bars([...known.holders, ...known.queue], past, waits), [known, past, waits]);
  // A page of the history may be empty while there are older ones.
  const hasNoPast = ended.value !== undefined && past.length === 0 && !ended.value.next;
  return (
    <>
      <p class="crumb">
        <a href={linkTo('locks')}>Locks</a>
      </p>
      <h1 class={name.length > 120 ? 'name-title long' : 'name-title'}>
        <Name name={name} />
      </h1>
      <Notice problem={problem} />
      <Recovery ms={value?.recoveringMs} />
      {value ? <Summary of={value} /> : null}
      {value && known.holders.length + known.queue.length === 0 && hasNoPast && value.recoveringMs === 0 ? (
        <Free name={name} />
      ) : null}
      {value ? (
        <div class={isStale ? 'columns stale' : 'columns'}>
          <Holders name={name} holders={known.holders} hasMore={known.hasMoreHolders} />
          <Queue name={name} queue={known.queue} hasMore={known.hasMoreQueue} />
        </div>
      ) : null}
      {value || past.length > 0 ? (
        <section class="card" aria-labelledby="timeline-title">
          <h2 id="timeline-title">Holds and waits over time</h2>
          <Timeline bars={drawn} />
        </section>
      ) : null}
      <Past past={past} ended={ended.problem} name={name} hasNone={hasNoPast} hasMore={Boolean(ended.value?.next)} />
    </>
  );
}

const NOTHING: EntriesOfName = {
  holders: [],
  hasMoreHolders: false,
  queue: [],
  hasMoreQueue: false,
  recoveringMs: 0,
};

function Summary({ of: { holders, hasMoreHolders, queue, hasMoreQueue, recoveringMs } }: { of: EntriesOfName }) {
  const [first] = holders;
  if (!first) return <p class="lead">{sayFree(queue.length, recoveringMs > 0)}</p>;
  const how = first.state === 'assigned' ? 'Assigned to' : first.mode === 'shared' ? 'Shared by' : 'Held by';
  return (
    <p class="lead">
      {how} {holders.length > 1 ? `${atLeast(holders.length, hasMoreHolders)} holders` : <Who entry={first} />} for{' '}
      <Ago at={first.since} />; {sayQueue(queue.length, hasMoreQueue)}.
    </p>
  );
}

function sayFree(waiting: number, isRecovering: boolean): string {
  if (isRecovering) return 'No holder is known yet.';
  return waiting === 0 ? 'Free: nothing holds it, and nothing waits.' : 'Nothing holds it at this moment.';
}

function Free({ name }: { name: string }) {
  const word = /^[\w./:-]+$/.test(name) ? name : "'…'";
  return (
    <Empty
      title="No lock of this name is known."
      command={`lockhouse run${bucketOption(bucket.value)} ${word} -- sleep 60`}
    >
      This command holds it for a minute. Names are compared exactly, capitals and blanks included.
    </Empty>
  );
}

function Holders({ name, holders, hasMore }: { name: string; holders: Entry[]; hasMore: boolean }) {
  const targets = holders.flatMap(holdOf);
  return (
    <section class="card" aria-labelledby="holders-title">
      <header>
        <h2 id="holders-title">
          Holders <span class="soft">{atLeast(holders.length, hasMore)}</span>
        </h2>
        {isOperateOffered() && targets.length > 1 ? (
          <button type="button" class="danger small" onClick={() => askToBreak(targets)}>
            {hasMore ? `Break these ${count(targets.length)}…` : 'Break all…'}
          </button>
        ) : null}
      </header>
      {holders.length === 0 ? <p class="soft">none</p> : null}
      <ul class="holds">
        {holders.slice(0, LISTED).map((it) => (
          <li key={keyOf(it)} class={`holder kind-${it.kind}`}>
            <div class="hold-main">
              <strong>
                <Who entry={it} />
              </strong>
              <KindMark kind={it.kind} />
              <ModeMark mode={it.mode} />
            </div>
            <div class="soft">
              for <Ago at={it.since} />, token <code>{it.fencingToken}</code>
              {it.expiresAt ? (
                <>
                  , ends in <Until at={it.expiresAt} /> unless renewed
                </>
              ) : null}
            </div>
            {it.metadata === null ? null : <pre class="metadata">{plainLines(it.metadata)}</pre>}
            <BreakButton entry={it} />
          </li>
        ))}
      </ul>
      <More of={holders} hasMore={hasMore} to={linkTo('locks', { name, state: 'held' })} />
    </section>
  );
}

/** How many more there are than are listed, and the way to them. */
function More({ of, hasMore, to }: { of: Entry[]; hasMore: boolean; to: string }) {
  if (of.length <= LISTED) return null;
  return (
    <p class="more">
      <a href={to}>{atLeast(of.length - LISTED, hasMore)} more</a>
    </p>
  );
}

function Queue({ name, queue, hasMore }: { name: string; queue: Entry[]; hasMore: boolean }) {
  return (
    <section class="card" aria-labelledby="queue-title">
      <header>
        <h2 id="queue-title">
          Queue <span class="soft">{atLeast(queue.length, hasMore)}</span>
        </h2>
      </header>
      {queue.length === 0 ? <p class="soft">none waits</p> : null}
      <ol class="queue" tabIndex={queue.length > 8 ? 0 : undefined} aria-label="In the order of grant">
        {queue.slice(0, LISTED).map((it) => (
          <li key={`${it.place} ${keyOf(it)}`}>
            <span class="queue-place">{it.place}</span>
            <Who entry={it} />
            <ModeMark mode={it.mode} />
            <span class="soft queue-wait">
              waits for <Ago at={it.since} />
            </span>
          </li>
        ))}
      </ol>
      <More of={queue} hasMore={hasMore} to={linkTo('locks', { name, state: 'pending' })} />
    </section>
  );
}

function Past({
  past,
  ended,
  name,
  hasNone,
  hasMore,
}: {
  past: Ended[];
  ended: Parameters<typeof Notice>[0]['problem'];
  name: string;
  hasNone: boolean;
  hasMore: boolean;
}) {
  const SHOWN = 20;
  return (
    <section class="card" aria-labelledby="past-title">
      <header>
        <h2 id="past-title">What has ended</h2>
        {past.length > SHOWN || hasMore ? <a href={linkTo('history', { name })}>All its history</a> : null}
      </header>
      <Notice problem={ended} />
      {past.length === 0 ? (
        <p class="soft">
          {hasMore ? (
            <>
              nothing among the latest ends of all names; <a href={linkTo('history', { name })}>look further back</a>
            </>
          ) : hasNone ? (
            'nothing yet'
          ) : (
            ''
          )}
        </p>
      ) : (
        <table class="plain past">
          <thead>
            <tr>
              <th scope="col">Who</th>
              <th scope="col">Kind</th>
              <th scope="col">End</th>
              <th scope="col" class="number">
                Ended
              </th>
              <th scope="col" class="number">
                Lasted
              </th>
              <th scope="col">By and why</th>
            </tr>
          </thead>
          <tbody>
            {past.slice(0, SHOWN).map((it) => (
              <tr key={keyOfEnded(it)}>
                <td>
                  <Text text={it.label} />
                </td>
                <td>
                  <KindMark kind={it.kind} /> <ModeMark mode={it.mode} />
                </td>
                <td>
                  <EndMark it={it} />
                </td>
                <td class="number">
                  <Ago at={it.endedAt} suffix=" ago" />
                </td>
                <td class="number">
                  <Between from={it.since} to={it.endedAt} />
                </td>
                <td>
                  {it.operator || it.reason ? <Text text={[it.operator, it.reason].filter(Boolean).join(': ')} /> : '–'}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
