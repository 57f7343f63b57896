import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { access } from './data/api';
import { overview, overviewProblem, useOverview } from './data/overview';
import { usePermission } from './data/permission';
import { bucket, linkTo, place } from './data/place';
import { count } from './logic/causes';
import { plain } from './logic/names';
import { sum } from './logic/rates';
import { Assignments } from './pages/assignments';
import { Claims } from './pages/claims';
import { Fleet } from './pages/fleet';
import { History } from './pages/history';
import { later } from './pages/later';
import { Locks } from './pages/locks';
import { NamePage } from './pages/name';
import { Owners } from './pages/owners';
import { Sessions } from './pages/sessions';
import { Bar, BucketChoice } from './parts/bar';
import { BreakDialog } from './parts/break';
import { Help, KeyDialog, useShortcuts } from './parts/help';
import { Empty } from './parts/marks';

/** A page of the dashboard, with its title and what the navigation counts beside it. */
interface PageEntry {
  path: string;
  title: string;
  /** What the navigation calls it, if that is shorter. */
  short?: string;
  view: () => ComponentChildren;
  counted?: () => number | undefined;
  isHidden?: boolean;
}

const PAGES: readonly PageEntry[] = [
  { path: '', title: 'Overview', view: later(() => import('./pages/overview').then((it) => it.OverviewPage)) },
  {
    path: 'locks',
    title: 'Locks',
    view: Locks,
    counted: () => overview.value && sum(overview.value.held) + overview.value.waiting + overview.value.assigned,
  },
  {
    path: 'waits',
    title: 'Waits: who waits for whom',
    short: 'Waits',
    view: later(() => import('./pages/waits').then((it) => it.WaitsPage)),
    counted: () => overview.value?.waiting,
  },
  { path: 'owners', title: 'Owners', view: Owners, counted: () => overview.value?.owners },
  { path: 'claims', title: 'Claims', view: Claims, counted: () => overview.value?.held.claim },
  { path: 'assignments', title: 'Assignments', view: Assignments, counted: () => overview.value?.assigned },
  { path: 'history', title: 'History', view: History },
  { path: 'sessions', title: 'Sessions', view: Sessions },
  { path: 'fleet', title: 'Fleet', view: Fleet },
  { path: 'try', title: 'Try it', view: later(() => import('./pages/try').then((it) => it.TryPage)) },
  { path: 'name', title: 'Name', view: NamePage, isHidden: true },
];

/** The whole dashboard. */
export function App() {
  useOverview();
  usePermission();
  useShortcuts();
  const { page, params } = place.value;
  const found = PAGES.find((it) => it.path === page);
  const title = page === 'name' ? plain(params.name ?? '') : (found?.title ?? 'Nothing is here');
  useEffect(() => {
    document.title = `${title} · ${plain(bucket.value)} · lockhouse`;
  }, [title, bucket.value]);
  const pages = useRef<HTMLElement>(null);
  // On a phone the pages are a line that is wider than the screen. `scrollIntoView` would also move the place
  // from which Tab goes on.
  useEffect(() => {
    const line = pages.current;
    const item = line?.querySelector<HTMLElement>('[aria-current]');
    if (line && item) line.scrollLeft += middle(item) - middle(line);
  }, [page]);
  const main = useRef<HTMLElement>(null);
  const shown = useRef(title);
  // Keys and screen readers go on at another page; other filters of the same page leave them where they are.
  useEffect(() => {
    if (shown.current === title) return;
    shown.current = title;
    main.current?.focus({ preventScroll: true });
  }, [title]);
  return (
    <>
      <a class="skip" href="#content">
        To the content
      </a>
      <aside class="side">
        <div class="side-inner">
          <a class="brand" href={linkTo('')}>
            <Logo />
            lockhouse
          </a>
          <BucketChoice />
          <nav aria-label="Pages of the dashboard" ref={pages}>
            <ul>
              {PAGES.filter((it) => !it.isHidden).map((it) => (
                <NavItem
                  key={it.path}
                  entry={it}
                  isHere={it.path === page || (page === 'name' && it.path === 'locks')}
                />
              ))}
            </ul>
          </nav>
        </div>
      </aside>
      <div class="main">
        <Bar />
        <main id="content" tabIndex={-1} aria-label={title} ref={main}>
          {found ? <found.view key={`${page} ${bucket.value} ${access.turn.value}`} /> : <Nothing />}
        </main>
      </div>
      <BreakDialog />
      <KeyDialog />
      <Help />
    </>
  );
}

function middle(of: HTMLElement): number {
  const { left, right } = of.getBoundingClientRect();
  return (left + right) / 2;
}

function NavItem({ entry, isHere }: { entry: PageEntry; isHere: boolean }) {
  const counted = overviewProblem.value ? undefined : entry.counted?.();
  return (
    <li>
      <a href={linkTo(entry.path)} aria-current={isHere ? 'page' : undefined}>
        {entry.short ?? entry.title}
        {counted ? (
          <span class="counted">{counted >= 10_000 ? `${Math.floor(counted / 1000)}k` : count(counted)}</span>
        ) : null}
      </a>
    </li>
  );
}

function Nothing() {
  return (
    <Empty title="Nothing is here.">
      The overview is at <a href={linkTo('')}>{linkTo('')}</a>.
    </Empty>
  );
}

function Logo() {
  return (
    <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
      <path class="logo-house" d="M16 2 3 12v16a2 2 0 0 0 2 2h22a2 2 0 0 0 2-2V12z" />
      <path class="logo-hole" d="M16 12a4 4 0 0 0-2 7.500V25h4v-5.500A4 4 0 0 0 16 12z" />
    </svg>
  );
}
