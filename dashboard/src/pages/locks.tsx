import { useSignal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { call, inBucket, type Query } from '../data/api';
import { holdOf, targetOf } from '../data/breaking';
import { useEvents } from '../data/events';
import { POLL_MS, usePolled } from '../data/live';
import { isOperateOffered } from '../data/permission';
import { bucket, change, go, linkTo, linkToName, place } from '../data/place';
import type { Entry, Page } from '../data/types';
import { count } from '../logic/causes';
import { plain } from '../logic/names';
import { bucketOption } from '../logic/shell';
import { readDuration } from '../logic/times';
import { changed, type Params } from '../logic/url';
import { askToBreak } from '../parts/break';
import { ChoiceFilter, Filters, TextFilter } from '../parts/filters';
import { Empty, KindAndMode, StateMark } from '../parts/marks';
import { NameLink, Text } from '../parts/name';
import { Notice, Recovery } from '../parts/notice';
import { Pager } from '../parts/pager';
import { type Column, Table } from '../parts/table';
import { Ago, Until } from '../parts/time';

/** As many entries come with one call. */
const LIMIT = 500;

/**
 * Tells an entry from others of a page, also once it has moved on in its queue: requests alone that one
 * client made at once are the same.
 */
export const keyOf = ({ name, kind, state, fencingToken, clientId, since }: Entry): string =>
  JSON.stringify(fencingToken === null ? [name, kind, state, clientId, since] : [kind, fencingToken, name, clientId]);

/** The question that the filters of the address ask. */
function queryOf({ name, prefix, client, owner, token, kind, state, older, sort, cursor }: Params): Query {
  return {
    name,
    prefix,
    client,
    owner,
    fencingToken: token,
    kind,
    state,
    olderThanMs: older === undefined ? undefined : (readDuration(older) ?? older),
    sort,
    cursor,
    limit: LIMIT,
  };
}

const PRESETS: readonly (readonly [string, Params])[] = [
  ['All', {}],
  ['Held', { state: 'held' }],
  ['Waiting', { state: 'pending', sort: 'age' }],
  ['Older than 5 min', { older: '5min', sort: 'age' }],
  ['Older than 1 h', { older: '1h', sort: 'age' }],
  ['Older than 1 day', { older: '1d', sort: 'age' }],
];

const COLUMNS: readonly Column<Entry>[] = [
  {
    id: 'name',
    title: 'Name',
    width: 'minmax(8rem, 2.2fr)',
    cell: (it) => <NameLink name={it.name} />,
    sort: 'name',
    phone: 'main',
  },
  { id: 'state', title: 'State', width: '5.8rem', cell: (it) => <StateMark entry={it} />, phone: 'side' },
  { id: 'kind', title: 'Kind, mode', width: '6.2rem', cell: (it) => <KindAndMode entry={it} /> },
  { id: 'client', title: 'Who', width: 'minmax(11rem, 1.6fr)', cell: (it) => <Who entry={it} /> },
  { id: 'since', title: 'Since', width: '5.4rem', cell: (it) => <Ago at={it.since} />, sort: 'age', isNumber: true },
  {
    id: 'expires',
    title: 'Ends in',
    width: '5.4rem',
    cell: (it) => (it.expiresAt ? <Until at={it.expiresAt} /> : '–'),
    phone: 'none',
    isNumber: true,
  },
  {
    id: 'token',
    title: 'Token',
    width: '9rem',
    cell: (it) => it.fencingToken ?? '–',
    phone: 'none',
    isNumber: true,
  },
];

/** Who holds or waits; an owner leads to its locks. */
export function Who({ entry }: { entry: Entry }) {
  const text = <Text text={entry.clientId} />;
  return entry.owner === null ? text : <a href={linkTo('owners', { owner: entry.owner })}>{text}</a>;
}

/** All that is held, waits or is assigned. */
export function Locks() {
  const { params } = place.value;
  const query = queryOf(params);
  const happened = useSignal(0);
  const { value, problem, isStale } = usePolled(
    `locks ${JSON.stringify(query)}`,
    (signal) => call<Page<Entry>>('GET', inBucket(bucket.value, 'query'), query, undefined, signal),
    POLL_MS,
    happened,
  );
  // Events of all names could be thousands in a second; those of a few come at once.
  const isNarrow = params.name !== undefined || (params.prefix ?? '') !== '';
  useEvents(bucket.value, isNarrow ? { name: params.name, prefix: params.prefix } : undefined, () => {
    happened.value += 1;
  });
  const rows = value?.entries ?? [];
  return (
    <>
      <h1>Locks</h1>
      <Presets params={params} />
      <LockFilters />
      <Notice problem={problem} />
      <Recovery ms={value?.recoveringMs} />
      {value && rows.length === 0 && !value.next && !isStale ? (
        <NoLocks params={params} isRecovering={Boolean(value.recoveringMs)} />
      ) : (
        <LockTable rows={rows} isStale={isStale} />
      )}
      <Pager shown={value && rows.length} next={value?.next} noun="lock" isLoading={isStale && !problem} />
    </>
  );
}

function Presets({ params }: { params: Params }) {
  const { cursor: _, page: __, ...present } = params;
  const same = (preset: Params) =>
    JSON.stringify(Object.entries(preset).sort()) === JSON.stringify(Object.entries(present).sort());
  return (
    <nav class="presets" aria-label="Usual filters">
      {PRESETS.map(([title, preset]) => (
        <a key={title} class="chip" href={linkTo('locks', preset)} aria-current={same(preset) ? 'true' : undefined}>
          {title}
        </a>
      ))}
    </nav>
  );
}

function LockFilters() {
  return (
    <Filters>
      <TextFilter name="prefix" label="Name begins with" placeholder="customer/" />
      <TextFilter name="name" label="Exact name" />
      <TextFilter name="client" label="Who" placeholder="client, label, claimant" />
      <TextFilter name="owner" label="Owner" placeholder="17" />
      <TextFilter name="token" label="Token" placeholder="4711" />
      <ChoiceFilter
        name="kind"
        label="Kind"
        choices={[
          ['web', 'Web Lock'],
          ['offline', 'offline lock'],
          ['claim', 'claim'],
          ['assignment', 'assignment'],
        ]}
      />
      <ChoiceFilter
        name="state"
        label="State"
        choices={[
          ['held', 'held'],
          ['pending', 'waits'],
          ['assigned', 'assigned'],
        ]}
      />
      <TextFilter
        name="older"
        label="Older than"
        placeholder="90s, 5min, 2h"
        fault={(text) =>
          readDuration(text) === undefined ? 'A number and a unit: 500ms, 90s, 5min, 2h, 1d' : undefined
        }
      />
    </Filters>
  );
}

/**
 * Entries with a choice of those that are to be broken: of holds, or of assignments that are to be taken
 * back, as the one is not to be confirmed in the words of the other.
 */
export function LockTable({
  rows,
  isStale,
  columns = COLUMNS,
  label = 'Locks',
  chooses = 'holds',
}: {
  rows: readonly Entry[];
  isStale: boolean;
  columns?: readonly Column<Entry>[];
  label?: string;
  chooses?: 'holds' | 'assignments';
}) {
  const targets = chooses === 'holds' ? holdOf : targetOf;
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const canChoose = (row: Entry) => targets(row).length > 0;
  const isThere = rows.filter((row) => canChoose(row) && chosen.has(keyOf(row)));
  const choose = (row: Entry | 'all') => {
    if (row === 'all') {
      const all = rows.filter(canChoose).map(keyOf);
      setChosen(isThere.length === all.length ? new Set() : new Set(all));
    } else {
      const next = new Set(isThere.map(keyOf));
      if (!next.delete(keyOf(row))) next.add(keyOf(row));
      setChosen(next);
    }
  };
  const offers = isOperateOffered();
  return (
    <>
      {offers && isThere.length > 0 ? (
        <div class="bulk" role="status">
          {count(isThere.length)} chosen
          <button
            type="button"
            class="danger"
            onClick={() => askToBreak(isThere.flatMap(targets), () => setChosen(new Set()))}
          >
            {chooses === 'holds' ? 'Break…' : 'Take back…'}
          </button>
          <button type="button" class="quiet" onClick={() => setChosen(new Set())}>
            Choose none
          </button>
        </div>
      ) : null}
      <Table
        label={label}
        rows={rows}
        columns={columns}
        keyOf={keyOf}
        nameOf={({ name, clientId }) => `${plain(name)} of ${plain(clientId)}`}
        isStale={isStale}
        sort={place.value.params.sort ?? 'name'}
        least="60rem"
        onSort={(sort) =>
          change(changed({}, { sort: sort === 'name' ? undefined : sort, cursor: undefined, page: undefined }))
        }
        onOpen={(row) => go(linkToName(row.name))}
        chosen={offers ? new Set(isThere.map(keyOf)) : undefined}
        onChoose={offers ? choose : undefined}
        canChoose={canChoose}
      />
    </>
  );
}

function NoLocks({ params, isRecovering }: { params: Params; isRecovering: boolean }) {
  const isFiltered = Object.keys(params).length > 0;
  if (isRecovering)
    return <Empty title={isFiltered ? 'Nothing known matches these filters.' : 'No lock is known yet.'} />;
  if (isFiltered) return <Empty title="Nothing matches these filters." />;
  return (
    <Empty
      title="Nothing is held, and nothing waits."
      command={`lockhouse run${bucketOption(bucket.value)} report -- sleep 60`}
    >
      This command holds a lock for a minute. In a second terminal, the same command waits for the first.
    </Empty>
  );
}
