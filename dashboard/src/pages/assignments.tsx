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
import { Ago } from '../parts/time';
import { LockTable } from './locks';

const COLUMNS: readonly Column<Entry>[] = [
  {
    id: 'name',
    title: 'Resource',
    width: 'minmax(9rem, 2fr)',
    cell: (it) => <NameLink name={it.name} />,
    sort: 'name',
    phone: 'main',
  },
  { id: 'client', title: 'Assigned to', width: 'minmax(10.5rem, 1.3fr)', cell: (it) => <Text text={it.clientId} /> },
  {
    id: 'since',
    title: 'Since',
    width: '5.6rem',
    cell: (it) => <Ago at={it.since} suffix=" ago" />,
    sort: 'age',
    isNumber: true,
  },
  { id: 'token', title: 'Token', width: '9rem', cell: (it) => it.fencingToken, isNumber: true, phone: 'none' },
  { id: 'actions', title: '', width: '8rem', cell: (it) => <BreakButton entry={it} />, phone: 'side' },
];

/** Claims that were made final. */
export function Assignments() {
  const { prefix, client, sort, cursor } = place.value.params;
  const query = { kind: 'assignment', prefix, client, sort, cursor, limit: 500 };
  const { value, problem, isStale } = usePolled(`assignments ${JSON.stringify(query)}`, (signal) =>
    call<Page<Entry>>('GET', inBucket(bucket.value, 'query'), query, undefined, signal),
  );
  const rows = value?.entries ?? [];
  const option = bucketOption(bucket.value);
  return (
    <>
      <h1>Assignments</h1>
      <p class="lead">Claims that were made final. They stay until they are taken back.</p>
      <Filters>
        <TextFilter name="prefix" label="Begins with" placeholder="seat/" />
        <TextFilter name="client" label="Assigned to" />
      </Filters>
      <Notice problem={problem} />
      {value && rows.length === 0 && !value.next && !isStale ? (
        <Empty
          title="Nothing is assigned."
          command={`lockhouse claim${option} seat/7c --claimant Anna\nlockhouse finalize${option} seat/7c TOKEN`}
        >
          The first command shows the token that the second one needs.
        </Empty>
      ) : (
        <LockTable rows={rows} isStale={isStale} columns={COLUMNS} label="Assignments" chooses="assignments" />
      )}
      <Pager shown={value && rows.length} next={value?.next} noun="assignment" isLoading={isStale && !problem} />
    </>
  );
}
