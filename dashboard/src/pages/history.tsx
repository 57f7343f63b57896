import { useSignal } from '@preact/signals';
import { call, inBucket } from '../data/api';
import { useEvents } from '../data/events';
import { usePolled } from '../data/live';
import { bucket, place } from '../data/place';
import type { Ended, Page } from '../data/types';
import { words } from '../logic/causes';
import { bucketOption } from '../logic/shell';
import { instantOf } from '../logic/times';
import { ChoiceFilter, Filters, TextFilter } from '../parts/filters';
import { Empty, EndMark, KindAndMode } from '../parts/marks';
import { NameLink, Text } from '../parts/name';
import { Notice } from '../parts/notice';
import { Pager } from '../parts/pager';
import { type Column, Table } from '../parts/table';
import { Ago, Between } from '../parts/time';

const ENDS = [
  'released',
  'refused',
  'aborted',
  'stolen',
  'broken',
  'expired',
  'maxHold',
  'leaseExpired',
  'clientEnded',
  'notReclaimed',
  'superseded',
  'ended',
  'overdue',
  'undone',
  'upgraded',
  'downgraded',
  'finalized',
  'unassigned',
  'ownerEnded',
  'ownerExpired',
  'ownerOverdue',
] as const;

const COLUMNS: readonly Column<Ended>[] = [
  {
    id: 'name',
    title: 'Name',
    width: 'minmax(7rem, 1fr)',
    cell: (it) => (it.name === null ? <em class="soft">owner {it.owner}</em> : <NameLink name={it.name} />),
    phone: 'main',
  },
  { id: 'kind', title: 'Kind, mode', width: '6.2rem', cell: (it) => <KindAndMode entry={it} />, phone: 'none' },
  { id: 'who', title: 'Who', width: 'minmax(11rem, 1.2fr)', cell: (it) => <Text text={it.label} /> },
  { id: 'end', title: 'End', width: '7.2rem', cell: (it) => <EndMark it={it} />, phone: 'side' },
  { id: 'why', title: 'By and why', width: 'minmax(11rem, 2.5fr)', cell: (it) => <Why it={it} /> },
  { id: 'ended', title: 'Ended', width: '7.2rem', cell: (it) => <Ago at={it.endedAt} suffix=" ago" />, isNumber: true },
  {
    id: 'length',
    title: 'Lasted',
    width: '5.4rem',
    cell: (it) => <Between from={it.since} to={it.endedAt} />,
    isNumber: true,
    phone: 'none',
  },
];

function Why({ it }: { it: Ended }) {
  if (it.operator === null && it.reason === null) return <>–</>;
  return <Text text={[it.operator, it.reason].filter((part) => part !== null).join(': ')} />;
}

export const keyOfEnded = (it: Ended): string =>
  JSON.stringify([it.kind, it.name, it.owner, it.fencingToken, it.label, it.since, it.endedAt, it.end]);

/** Who held what, from when to when, and why it ended. */
export function History() {
  const { name, prefix, kind, end, owner, label, token, from, to, cursor } = place.value.params;
  const query = {
    name,
    prefix,
    kind,
    end,
    owner,
    label,
    fencingToken: token,
    // An address that was typed may have local time.
    from: from && instantOf(from),
    to: to && instantOf(to),
    cursor,
    limit: 100,
  };
  const happened = useSignal(0);
  const { value, problem, isStale } = usePolled(
    `history ${JSON.stringify(query)}`,
    (signal) => call<Page<Ended>>('GET', inBucket(bucket.value, 'history'), query, undefined, signal),
    cursor ? 10_000 : 3000,
    happened,
  );
  const isNarrow = name !== undefined || (prefix ?? '') !== '';
  useEvents(bucket.value, isNarrow && !cursor ? { name, prefix } : undefined, () => {
    happened.value += 1;
  });
  const rows = value?.entries ?? [];
  const isFiltered = Object.keys(place.value.params).length > 0;
  return (
    <>
      <h1>History</h1>
      <p class="lead">What has ended, the latest first. Web Locks are kept in memory, everything else in the store.</p>
      <HistoryFilters />
      <Notice problem={problem} />
      {value && rows.length === 0 && !isStale && !value.next ? (
        <Empty
          title={isFiltered ? 'Nothing that has ended matches these filters.' : 'Nothing has ended yet.'}
          command={isFiltered ? '' : `lockhouse run${bucketOption(bucket.value)} report -- true`}
        >
          {isFiltered ? null : 'This command takes a lock and gives it back.'}
        </Empty>
      ) : (
        <Table
          label="History"
          least="60rem"
          rowHeight={60}
          phoneHeight={84}
          rows={rows}
          columns={COLUMNS}
          keyOf={keyOfEnded}
          isStale={isStale}
        />
      )}
      <Pager shown={value && rows.length} next={value?.next} noun="end" isLoading={isStale && !problem} />
    </>
  );
}

function HistoryFilters() {
  return (
    <Filters>
      <TextFilter name="name" label="Exact name" />
      <TextFilter name="prefix" label="Name begins with" />
      <ChoiceFilter
        name="kind"
        label="Kind"
        choices={['web', 'offline', 'claim', 'assignment', 'owner'].map((it) => [it, words(it)] as const)}
      />
      <ChoiceFilter name="end" label="End" choices={ENDS.map((it) => [it, words(it)] as const)} />
      <TextFilter name="label" label="Label or claimant" />
      <TextFilter name="owner" label="Owner" />
      <TextFilter name="token" label="Token" />
      <TextFilter name="from" label="From" isInstant />
      <TextFilter name="to" label="To" isInstant />
    </Filters>
  );
}
