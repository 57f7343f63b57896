import { call, inBucket } from '../data/api';
import { usePolled } from '../data/live';
import { bucket, linkTo, place } from '../data/place';
import type { Session } from '../data/types';
import { count } from '../logic/causes';
import { bucketOption } from '../logic/shell';
import { Empty } from '../parts/marks';
import { Text } from '../parts/name';
import { Notice } from '../parts/notice';
import { Pager } from '../parts/pager';
import { type Column, Table } from '../parts/table';
import { Ago } from '../parts/time';

const COLUMNS: readonly Column<Session>[] = [
  {
    id: 'agents',
    title: 'Clients',
    width: 'minmax(10.6rem, 1.6fr)',
    cell: (it) => <Agents session={it} />,
    phone: 'main',
  },
  { id: 'connected', title: 'Connection', width: '5.8rem', cell: (it) => <Connected session={it} />, phone: 'side' },
  { id: 'address', title: 'Address', width: '7rem', cell: (it) => (it.address ? <Text text={it.address} /> : '–') },
  {
    id: 'agent',
    title: 'Program',
    width: 'minmax(3.8rem, 1fr)',
    cell: (it) => (it.userAgent ? <Text text={it.userAgent} /> : '–'),
    phone: 'none',
  },
  {
    id: 'origin',
    title: 'Origin',
    width: 'minmax(3.8rem, 1fr)',
    cell: (it) => (it.origin ? <Text text={it.origin} /> : '–'),
    phone: 'none',
  },
  {
    id: 'credential',
    title: 'Credential',
    width: '5.2rem',
    cell: (it) => (it.credential ? <Text text={it.credential} /> : 'none'),
    phone: 'none',
  },
  { id: 'since', title: 'Since', width: '4.9rem', cell: (it) => <Ago at={it.since} />, isNumber: true },
  { id: 'held', title: 'Held', width: '4rem', cell: (it) => count(it.held), isNumber: true, phone: 'none' },
  { id: 'waiting', title: 'Waits', width: '3.4rem', cell: (it) => count(it.waiting), isNumber: true, phone: 'none' },
  {
    id: 'queued',
    title: 'Unsent',
    width: '3.8rem',
    cell: (it) => `${count(it.queuedBytes)} B`,
    isNumber: true,
    phone: 'none',
  },
];

function Agents({ session }: { session: Session }) {
  const [first] = session.clientIds;
  const others = session.agents - 1;
  if (first === undefined) return <em class="soft">no agent</em>;
  return (
    <span class="label">
      <a href={linkTo('locks', { client: first })}>
        <Text text={first} />
      </a>
      {others > 0 ? <span class="soft"> and {others} more</span> : null}
    </span>
  );
}

function Connected({ session }: { session: Session }) {
  return (
    <span class={session.connected ? 'state state-held' : 'state state-pending'}>
      {session.connected ? 'connected' : 'away'}
    </span>
  );
}

/** The sessions of the bucket, with their connections. */
export function Sessions() {
  const { cursor } = place.value.params;
  const { value, problem, isStale } = usePolled(`sessions ${cursor}`, (signal) =>
    call<{ sessions: Session[]; next: string | null }>(
      'GET',
      inBucket(bucket.value, 'sessions'),
      { cursor, limit: 200 },
      undefined,
      signal,
    ),
  );
  const rows = value?.sessions ?? [];
  return (
    <>
      <h1>Sessions</h1>
      <p class="lead">
        Clients with Web Locks in this bucket, in a fleet those of all nodes. A session outlives its connection for the
        length of its lease.
      </p>
      <Notice problem={problem} />
      {value && rows.length === 0 && !value.next && !isStale ? (
        <Empty
          title="No client is connected to this bucket."
          command={`lockhouse run${bucketOption(bucket.value)} report -- sleep 60`}
        >
          This command connects and holds a lock for a minute.
        </Empty>
      ) : problem?.status === 403 ? null : (
        <Table
          label="Sessions"
          least="61rem"
          rows={rows}
          columns={COLUMNS}
          keyOf={(it) => JSON.stringify([it.address, it.since, it.clientIds])}
          isStale={isStale}
        />
      )}
      <Pager shown={value && rows.length} next={value?.next} noun="session" isLoading={isStale && !problem} />
    </>
  );
}
