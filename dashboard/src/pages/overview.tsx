import type { ComponentChildren } from 'preact';
import { now } from '../data/live';
import { overview, overviewProblem, samples } from '../data/overview';
import { bucket, linkTo, linkToName } from '../data/place';
import type { Durations, Entry, Overview } from '../data/types';
import { count, type EndFilter, endsOfLoss, rate, words } from '../logic/causes';
import { rates, sum } from '../logic/rates';
import { bucketOption } from '../logic/shell';
import { duration, exact } from '../logic/times';
import type { Params } from '../logic/url';
import { Chart } from '../parts/chart';
import { Empty } from '../parts/marks';
import { Name, NameLink } from '../parts/name';
import { Notice, Recovery } from '../parts/notice';
import { Ago } from '../parts/time';

/** What is held and waits now, how that changes, and how long it takes. */
export function OverviewPage() {
  const it = overview.value;
  if (!it) {
    return (
      <>
        <h1>Overview</h1>
        <Notice problem={overviewProblem.value} />
        {overviewProblem.value ? null : <p class="loading">Loading…</p>}
      </>
    );
  }
  const isIdle = sum(it.held) + it.waiting + it.assigned + it.owners === 0;
  return (
    <>
      <h1>Overview</h1>
      <Notice problem={overviewProblem.value} />
      <Recovery ms={it.recoveringMs} />
      <Figures it={it} />
      {isIdle && !it.recoveringMs ? (
        <Empty
          title="Nothing is held, and nothing waits."
          command={`lockhouse run${bucketOption(bucket.value)} report -- sleep 60`}
        >
          This command holds a lock for a minute; in a second terminal, it waits. Without a terminal, open{' '}
          <a href={linkTo('try')}>Try it</a> in two tabs.
        </Empty>
      ) : null}
      <Charts />
      <div class="columns">
        <Contended it={it} />
        <Times it={it} />
        {it.totals ? <Ends totals={it.totals} /> : null}
      </div>
    </>
  );
}

function Ends({ totals }: { totals: NonNullable<Overview['totals']> }) {
  const { refused, lost, since } = totals;
  return (
    <>
      <Causes
        title="Refused"
        what="refused requests"
        counts={refused}
        since={since}
        endsOf={() => [{ end: 'refused' }]}
      >
        The history has them without their causes: each leads to what it still has of all.
      </Causes>
      <Causes title="Lost" what="lost holds" counts={lost} since={since} endsOf={endsOfLoss} isLoss>
        Each leads to what the <a href={linkTo('history', { from: since })}>history</a> still has of it
        {lost.lease ? '; with the holds of silent clients (lease) it has their waits' : ''}.
      </Causes>
    </>
  );
}

function Figures({ it }: { it: Overview }) {
  const { held, waiting, longestWait, oldest } = it;
  return (
    <section class="figures" aria-label="Now">
      <Figure title="Held" value={count(sum(held))} to={{ state: 'held' }}>
        {(['web', 'offline', 'claim'] as const).map((kind) => (
          <a key={kind} class={`part kind-${kind}`} href={linkTo('locks', { state: 'held', kind })}>
            {count(held[kind])} <span>{kind}</span>
          </a>
        ))}
      </Figure>
      <Figure title="Waiting" value={count(waiting)} to={{ state: 'pending' }} isAlert={waiting > 0}>
        <a href={linkTo('waits')}>for whom</a>
      </Figure>
      <Figure
        title="Longest wait"
        value={longestWait ? age(longestWait) : '–'}
        to={{ state: 'pending', sort: 'age' }}
        isAlert={longestWait !== null}
      >
        {longestWait ? <Whose entry={longestWait} /> : 'nothing waits'}
      </Figure>
      <Figure title="Oldest hold" value={oldest ? age(oldest) : '–'} to={{ state: 'held', sort: 'age' }}>
        {oldest ? <Whose entry={oldest} /> : 'nothing is held'}
      </Figure>
      <Figure title="Owners" value={count(it.owners)} page="owners">
        of offline locks
      </Figure>
      <Figure title="Agents" value={count(it.agents)} page="sessions">
        of Web Locks
      </Figure>
      <Figure title="Assigned" value={count(it.assigned)} page="assignments">
        made final
      </Figure>
    </section>
  );
}

const age = (entry: Entry) => duration(Math.max(0, now.value - Date.parse(entry.since)));

function Whose({ entry }: { entry: Entry }) {
  return (
    <a href={linkToName(entry.name)} title={exact(entry.since)}>
      <Name name={entry.name} />
    </a>
  );
}

function Figure(props: {
  title: string;
  value: string;
  page?: string;
  to?: Params;
  isAlert?: boolean;
  children: ComponentChildren;
}) {
  const { title, value, page = 'locks', to = {}, isAlert, children } = props;
  return (
    <div class={isAlert ? 'card figure alert' : 'card figure'}>
      <a class="figure-main" href={linkTo(page, to)}>
        <span class="figure-title">{title}</span>
        <span class="figure-value">{value}</span>
      </a>
      <div class="figure-parts">{children}</div>
    </div>
  );
}

function Charts() {
  const seen = samples.value;
  const times = seen.map((sample) => sample.at / 1000);
  const changes = rates(seen);
  const locks = (filters: Params) => linkTo('locks', filters);
  return (
    <div class="columns charts">
      <section class="card">
        <Chart
          label="Held and waiting"
          times={times}
          format={count}
          isCount
          series={[
            {
              label: 'held',
              colour: '--blue',
              values: seen.map((sample) => sample.held),
              to: locks({ state: 'held' }),
            },
            {
              label: 'waiting',
              colour: '--amber-fill',
              values: seen.map((sample) => sample.waiting),
              to: locks({ state: 'pending' }),
            },
          ]}
        />
      </section>
      <section class="card">
        <Chart
          label="Per second"
          times={times}
          format={rate}
          series={[
            {
              label: 'granted',
              colour: '--green-fill',
              values: changes.map((it) => it.granted),
              to: locks({ state: 'held' }),
            },
            {
              label: 'refused',
              colour: '--amber-fill',
              values: changes.map((it) => it.refused),
              to: linkTo('history', { end: 'refused' }),
            },
            { label: 'lost', colour: '--red', values: changes.map((it) => it.lost), to: linkTo('history') },
          ]}
        />
      </section>
    </div>
  );
}

function Contended({ it }: { it: Overview }) {
  return (
    <section class="card" aria-labelledby="contended-title">
      <h2 id="contended-title">Most contended</h2>
      {it.contended.length === 0 ? (
        <p class="soft">No request waits.</p>
      ) : (
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col" class="number">
                Waiting
              </th>
              <th scope="col" class="number">
                Held
              </th>
              <th scope="col" class="number">
                Longest wait
              </th>
            </tr>
          </thead>
          <tbody>
            {it.contended.map((row) => (
              <tr key={row.name}>
                <td>
                  <NameLink name={row.name} />
                </td>
                <td class="number">
                  <Meter value={row.waiting} most={it.contended[0]?.waiting ?? 1} />
                  <a href={linkTo('locks', { name: row.name, state: 'pending' })}>{count(row.waiting)}</a>
                </td>
                <td class="number">
                  <a href={linkTo('locks', { name: row.name, state: 'held' })}>{count(row.held)}</a>
                </td>
                <td class="number">
                  <a href={linkTo('locks', { name: row.name, state: 'pending', sort: 'age' })}>
                    {duration(row.longestWaitMs)}
                  </a>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function Meter({ value, most, isLoss }: { value: number; most: number; isLoss?: boolean }) {
  return (
    <span class={isLoss ? 'meter loss' : 'meter'} aria-hidden="true">
      <span style={{ width: `${(100 * value) / Math.max(1, most)}%` }} />
    </span>
  );
}

function Times({ it }: { it: Overview }) {
  if (!it.waits || !it.holds || !it.totals) {
    return (
      <section class="card" aria-labelledby="times-title">
        <h2 id="times-title">How long it takes</h2>
        <p class="soft">
          This server counts nothing: its settings say <code>metrics.enabled = false</code>.
        </p>
      </section>
    );
  }
  const { waits, holds, totals } = it;
  const rows: [string, Durations, string][] = [
    ['Waits', waits, linkTo('locks', { state: 'pending', sort: 'age' })],
    ...(['web', 'offline', 'claim'] as const).map((kind): [string, Durations, string] => {
      return [`Holds: ${words(kind)}`, holds[kind], linkTo('history', { kind, from: totals.since })];
    }),
  ];
  return (
    <section class="card" aria-labelledby="times-title">
      <h2 id="times-title">How long it takes</h2>
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">What has ended</th>
            <th scope="col">Spread</th>
            <th scope="col" class="number">
              Half
            </th>
            <th scope="col" class="number">
              90 %
            </th>
            <th scope="col" class="number">
              99 %
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([title, of, to]) => (
            <tr key={title}>
              <td>
                <a href={to}>
                  {title} <span class="soft">{count(of.count)}</span>
                </a>
              </td>
              <td>
                <Spread of={of} />
              </td>
              {[of.p50Ms, of.p90Ms, of.p99Ms].map((ms, index) => (
                <td key={index} class="number">
                  {of.count === 0 || ms === null ? '–' : duration(ms)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <p class="soft">
        Half, 90 % and 99 % took no longer than this, since{' '}
        <span title={exact(totals.since)}>the server began with the bucket</span>. Holds lead to what the history still
        has of them, and waits to the requests that wait now.
      </p>
    </section>
  );
}

/** A histogram as small bars; its buckets are those of the server. */
function Spread({ of }: { of: Durations }) {
  const most = Math.max(1, ...of.buckets.map((bucket) => bucket.count));
  const shown = of.count === 0 ? [] : of.buckets;
  const label = of.count === 0 ? 'none yet' : `${count(of.count)} in ${of.buckets.length} classes`;
  return (
    <span class="spread" role="img" aria-label={label}>
      {shown.map((bucket) => (
        <span
          key={bucket.leMs}
          title={`${bucket.leMs === null ? 'longer' : `up to ${duration(bucket.leMs)}`}: ${count(bucket.count)}`}
          style={{ height: `${bucket.count === 0 ? 2 : 10 + (90 * bucket.count) / most}%` }}
        />
      ))}
    </span>
  );
}

interface CausesProps {
  title: string;
  what: string;
  counts: Readonly<Record<string, number>>;
  since: string;
  /** What of the history is of a cause, or is nearest to that. */
  endsOf: (cause: string) => readonly EndFilter[];
  isLoss?: boolean;
  /** What the history has of them, in words. */
  children: ComponentChildren;
}

function Causes({ title, what, counts, since, endsOf, isLoss = false, children }: CausesProps) {
  const rows = Object.entries(counts).filter(([, many]) => many > 0);
  const most = Math.max(1, ...rows.map(([, many]) => many));
  return (
    <section class="card">
      <h2>
        {title} <span class="soft">{count(sum(counts))}</span>
      </h2>
      {rows.length === 0 ? (
        <p class="soft">
          No {what} for <Ago at={since} />.
        </p>
      ) : (
        <>
          <table class="plain">
            <tbody>
              {rows
                .sort((a, b) => b[1] - a[1])
                .map(([cause, many]) => (
                  <tr key={cause}>
                    <th scope="row">
                      <Cause cause={cause} ends={endsOf(cause)} since={since} />
                    </th>
                    <td class="number">
                      <Meter value={many} most={most} isLoss={isLoss} />
                      {count(many)}
                    </td>
                  </tr>
                ))}
            </tbody>
          </table>
          <p class="soft">{children}</p>
        </>
      )}
    </section>
  );
}

/**
 * A cause as a link to what it counts, or with a link for each kind of it; without one where no filter
 * selects it.
 */
function Cause({ cause, ends, since }: { cause: string; ends: readonly EndFilter[]; since: string }) {
  const address = (filter: EndFilter) => linkTo('history', { ...filter, from: since });
  const [first] = ends;
  if (first && ends.length === 1) return <a href={address(first)}>{words(cause)}</a>;
  return (
    <>
      {words(cause)}
      {ends.map((filter, index) => (
        <span key={filter.end}>
          {index === 0 ? ': ' : ', '}
          <a href={address(filter)}>{words(filter.kind ?? filter.end)}</a>
        </span>
      ))}
    </>
  );
}
