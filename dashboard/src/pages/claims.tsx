import { call, inBucket } from '../data/api';
import { usePolled } from '../data/live';
import { bucket, place } from '../data/place';
import type { Entry, Page } from '../data/types';
import { bucketOption } from '../logic/shell';
import { BreakButton } from '../parts/break';
import { Filters, TextFilter } from '../parts/filters';
import { Empty } from '../parts/marks';
import { NameLink, Text } from '../parts/name';
import { Notice } from '../parts/notice';
import { Pager } from '../parts/pager';
import type { Column } from '../parts/table';
import { Ago, Until } from '../parts/time';
import { LockTable } from './locks';

const COLUMNS: readonly Column<Entry>[] = [
  {
    id: 'name',
    title: 'Resource',
    width: 'minmax(8rem, 2fr)',
    cell: (it) => <NameLink name={it.name} />,
    sort: 'name',
    phone: 'main',
  },
  { id: 'client', title: 'Claimant', width: 'minmax(10.5rem, 1.3fr)', cell: (it) => <Text text={it.clientId} /> },
  {
    id: 'left',
    title: 'Time left',
    width: '8rem',
    // Without a bar: how long a claim that was renewed may last as a whole, no answer says.
    cell: (it) => (it.expiresAt ? <Until at={it.expiresAt} suffix=" left" /> : '–'),
  },
  {
    id: 'since',
    title: 'Since',
    width: '5.6rem',
    cell: (it) => <Ago at={it.since} />,
    sort: 'age',
    isNumber: true,
    phone: 'none',
  },
  { id: 'token', title: 'Token', width: '9rem', cell: (it) => it.fencingToken, isNumber: true, phone: 'none' },
  { id: 'actions', title: '', width: '6.5rem', cell: (it) => <BreakButton entry={it} />, phone: 'side' },
];

/** Claims, with the time that is left to make them final. */
export function Claims() {
  const { prefix, client, sort, cursor } = place.value.params;
  const query = { kind: 'claim', prefix, client, sort, cursor, limit: 500 };
  const { value, problem, isStale } = usePolled(`claims ${JSON.stringify(query)}`, (signal) =>
    call<Page<Entry>>('GET', inBucket(bucket.value, 'query'), query, undefined, signal),
  );
  const rows = value?.entries ?? [];
  return (
    <>
      <h1>Claims</h1>
      <p class="lead">Reservations that end by themselves, unless they are made final in time.</p>
      <Filters>
        <TextFilter name="prefix" label="Begins with" placeholder="seat/" />
        <TextFilter name="client" label="Claimant" />
      </Filters>
      <Notice problem={problem} />
      {value && rows.length === 0 && !value.next && !isStale ? (
        <Empty
          title="No claim is there."
          command={`lockhouse claim${bucketOption(bucket.value)} seat/7c --claimant Anna --ttl 5min`}
        >
          This command claims a resource for five minutes.
        </Empty>
      ) : (
        <LockTable rows={rows} isStale={isStale} columns={COLUMNS} label="Claims" />
      )}
      <Pager shown={value && rows.length} next={value?.next} noun="claim" isLoading={isStale && !problem} />
    </>
  );
}
