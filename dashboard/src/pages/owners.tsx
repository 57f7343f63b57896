import { call, inBucket } from '../data/api';
import { usePolled } from '../data/live';
import { bucket, change, linkTo, place } from '../data/place';
import type { Entry, Owner, Page } from '../data/types';
import { count } from '../logic/causes';
import { plainLines } from '../logic/names';
import { bucketOption } from '../logic/shell';
import { changed } from '../logic/url';
import { BreakButton } from '../parts/break';
import { Filters, TextFilter } from '../parts/filters';
import { Empty, ModeMark } from '../parts/marks';
import { NameLink, Text } from '../parts/name';
import { Notice } from '../parts/notice';
import { Pager } from '../parts/pager';
import { type Column, Table } from '../parts/table';
import { Ago, Until } from '../parts/time';

const COLUMNS: readonly Column<Owner>[] = [
  { id: 'label', title: 'Label', width: 'minmax(8rem, 2fr)', cell: (it) => <OwnerLink owner={it} />, phone: 'main' },
  { id: 'owner', title: 'Owner', width: '10.5rem', cell: (it) => it.owner, phone: 'none', isNumber: true },
  {
    id: 'locks',
    title: 'Locks',
    width: '7rem',
    isNumber: true,
    cell: (it) => (
      <a href={linkTo('locks', { owner: it.owner })}>
        {count(it.locks)} {it.locks === 1 ? 'lock' : 'locks'}
      </a>
    ),
    phone: 'side',
  },
  { id: 'since', title: 'Since', width: '7rem', cell: (it) => <Ago at={it.since} />, isNumber: true },
  {
    id: 'left',
    title: 'If silent, ends in',
    width: '9rem',
    cell: (it) => <Until at={it.expiresAt} />,
    isNumber: true,
    phone: 'none',
  },
  {
    id: 'ends',
    title: 'Ends in',
    width: '8rem',
    cell: (it) => (it.endsAt ? <Until at={it.endsAt} /> : 'no limit'),
    isNumber: true,
    phone: 'none',
  },
];

function OwnerLink({ owner }: { owner: Owner }) {
  return (
    <a href={linkTo('owners', { ...place.value.params, owner: owner.owner })}>
      <Text text={owner.label} />
    </a>
  );
}

/** The owners, and the locks of the one that is chosen. */
export function Owners() {
  const { label, cursor, owner } = place.value.params;
  const query = { label, cursor, limit: 200 };
  const { value, problem, isStale } = usePolled(`owners ${JSON.stringify(query)}`, (signal) =>
    call<{ owners: Owner[]; next: string | null }>('GET', inBucket(bucket.value, 'owners'), query, undefined, signal),
  );
  const rows = value?.owners ?? [];
  const option = bucketOption(bucket.value);
  return (
    <>
      <h1>Owners</h1>
      <p class="lead">
        Sessions and business transactions that have offline locks. An owner that is silent for too long ends with its
        locks.
      </p>
      {owner ? <OwnerDetail id={owner} known={rows.find((it) => it.owner === owner)} /> : null}
      <Filters besides={['owner']}>
        <TextFilter name="label" label="Label" />
      </Filters>
      <Notice problem={problem} />
      {value && rows.length === 0 && !value.next && !isStale ? (
        <Empty
          title="No owner is there."
          command={`export $(lockhouse owner open${option} Anna)\nlockhouse lock${option} customer/42`}
        >
          The first command opens an owner, and the second one locks a record for it.
        </Empty>
      ) : (
        <Table
          label="Owners"
          rows={rows}
          columns={COLUMNS}
          keyOf={(it) => it.owner}
          isStale={isStale}
          onOpen={(it) => change({ owner: it.owner })}
        />
      )}
      <Pager shown={value && rows.length} next={value?.next} noun="owner" isLoading={isStale && !problem} />
    </>
  );
}

function OwnerDetail({ id, known }: { id: string; known: Owner | undefined }) {
  const { value, problem } = usePolled(`owner ${id}`, (signal) =>
    call<Page<Entry>>('GET', inBucket(bucket.value, 'query'), { owner: id, limit: 100 }, undefined, signal),
  );
  const locks = value?.entries ?? [];
  return (
    <section class="card detail" aria-labelledby="owner-title">
      <header>
        <h2 id="owner-title">
          {known ? <Text text={known.label} /> : 'Owner'} <span class="soft">owner {id}</span>
        </h2>
        <a class="button quiet" href={linkTo('owners', changed(place.value.params, { owner: undefined }))}>
          Close
        </a>
      </header>
      {known?.metadata ? <pre class="metadata">{plainLines(known.metadata)}</pre> : null}
      <Notice problem={problem} />
      {value && locks.length === 0 ? (
        <p class="soft">
          It holds no lock, or it has ended. <a href={linkTo('history', { owner: id })}>Its history</a>
        </p>
      ) : null}
      <ul class="holds">
        {locks.map((it) => (
          <li key={it.fencingToken}>
            <NameLink name={it.name} />
            <ModeMark mode={it.mode} />
            <span class="soft">
              for <Ago at={it.since} />, token {it.fencingToken}
            </span>
            <BreakButton entry={it} />
          </li>
        ))}
      </ul>
      {value?.next ? <a href={linkTo('locks', { owner: id })}>All its locks</a> : null}
    </section>
  );
}
