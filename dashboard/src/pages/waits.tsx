import { useMemo, useState } from 'preact/hooks';
import { call, inBucket } from '../data/api';
import { usePolled } from '../data/live';
import { overview } from '../data/overview';
import { bucket, change, linkTo, place } from '../data/place';
import type { WaitEdge, WaitNode, Waits } from '../data/types';
import { distinct, folded, keyOf, reduced, steps } from '../logic/graph';
import { layout, type Spot } from '../logic/layers';
import { plain } from '../logic/names';
import { bucketOption } from '../logic/shell';
import { duration } from '../logic/times';
import { Empty, KindMark, ModeMark } from '../parts/marks';
import { NameLink, Text } from '../parts/name';
import { Notice, Recovery } from '../parts/notice';

const SIZES = { nodeWidth: 156, nodeHeight: 40, columnGap: 96, rowGap: 14, partGap: 36 };
const [SIDE_MARGIN, MARGIN] = [8, 28];

/** As much smaller a picture may become to fit in; beyond that it is scrolled. */
const LEAST_SCALE = 0.8;

/** Who waits for whom, as a picture and as a list. */
export function WaitsPage() {
  const isCyclesOnly = place.value.params.only === 'cycles';
  const { value, problem, isStale } = usePolled('waits', (signal) =>
    call<Waits>('GET', inBucket(bucket.value, 'waits'), {}, undefined, signal),
  );
  const shape =
    value === undefined
      ? ''
      : JSON.stringify([
          isCyclesOnly,
          value.nodes,
          value.cycles,
          value.edges.map(({ from, to, name }) => [from, to, name]),
        ]);
  const drawing = useMemo(() => (value ? draw(value, isCyclesOnly) : undefined), [shape]);
  // A command within `run` is in the same bucket.
  const option = bucketOption(bucket.value);
  const present = new Map(distinct(value?.edges ?? []).map((edge) => [keyOf(edge), edge]));
  const labels = new Map((value?.nodes ?? []).map((node) => [node.id, node.clientId]));
  return (
    <>
      <h1>Waits: who waits for whom</h1>
      <p class="lead">
        Each arrow leads from a request to what it waits for. Clients on a cycle wait for each other, and may do so for
        ever: of each group that does, one cycle is red.
      </p>
      <Notice problem={problem} />
      <Recovery ms={overview.value?.recoveringMs} />
      {value && value.edges.length === 0 ? (
        <Empty
          title="Nothing waits."
          command={`lockhouse run${option} a -- sh -c 'sleep 4; lockhouse run b -- echo both'\nlockhouse run${option} b -- sh -c 'sleep 4; lockhouse run a -- echo both'`}
        >
          Start these two commands within four seconds, each in a terminal of its own. Then each waits for the other,
          and this page shows both in red.
        </Empty>
      ) : null}
      {value && value.edges.length > 0 && drawing ? (
        <div class={isStale ? 'stale' : undefined}>
          <Cycles cycles={value.cycles} labels={labels} edges={value.edges} />
          <div class="presets">
            <button
              type="button"
              class="chip"
              aria-pressed={!isCyclesOnly}
              onClick={() => change({ only: undefined }, 'replace')}
            >
              All
            </button>
            <button
              type="button"
              class="chip"
              aria-pressed={isCyclesOnly}
              onClick={() => change({ only: 'cycles' }, 'replace')}
            >
              Cycles alone
            </button>
            {value.truncated ? (
              <span class="soft">There are more than are shown; those on cycles come first.</span>
            ) : null}
          </div>
          {drawing.nodes.length === 0 ? (
            <p class="soft">No request waits in a cycle.</p>
          ) : (
            <Picture drawing={drawing} present={present} />
          )}
          <EdgeList labels={labels} drawing={drawing} present={present} />
        </div>
      ) : null}
      {!value && !problem ? <p class="loading">Loading…</p> : null}
    </>
  );
}

/** What stays of an edge while the graph has the same shape; the mode and the time are of the present answer. */
interface Arrow {
  from: string;
  to: string;
  name: string;
  /** The key of the edge of the answer; an arrow to or from a folded line has ends of its own. */
  key: string;
}

/** The edges of the present answer, by their keys. */
type Present = ReadonlyMap<string, WaitEdge>;

interface Drawing {
  nodes: { node: WaitNode; spot: Spot; isCyclic: boolean }[];
  edges: { edge: Arrow; path: string; label: { x: number; y: number }; isCyclic: boolean }[];
  /** The edges that are told in words, those of cycles first. */
  words: Arrow[];
  cyclic: ReadonlySet<Arrow>;
  /** How many edges there are, without those that say the same. */
  all: number;
  width: number;
  height: number;
}

function draw({ nodes, edges: all, cycles }: Waits, isCyclesOnly: boolean): Drawing {
  const ofCycles = new Set(steps(cycles, all).flatMap((cycle) => cycle.flatMap((edge) => (edge ? [keyOf(edge)] : []))));
  const edges = distinct(all).map((edge): Arrow => {
    const { from, to, name } = edge;
    return { from, to, name, key: keyOf(edge) };
  });
  const onCycle = new Set(edges.filter((edge) => ofCycles.has(edge.key)));
  const told = isCyclesOnly ? edges.filter((edge) => onCycle.has(edge)) : reduced(edges, onCycle);
  const { edges: shown, hidden } = folded(told, onCycle);
  const used = new Set(shown.flatMap(({ from, to }) => [from, to]));
  const kept = [...nodes, ...[...hidden].map(([id, those]) => moreNode(id, those.length))].filter((node) =>
    used.has(node.id),
  );
  const red = new Set([...onCycle].flatMap(({ from, to }) => [from, to]));
  const ids = kept.map((node) => node.id);
  const { spots, width, height } = layout(ids, shown, SIZES, (part) => Number(part.some((node) => red.has(node))));
  return {
    nodes: kept.flatMap((node) => {
      const spot = spots.get(node.id);
      return spot ? [{ node, spot, isCyclic: red.has(node.id) }] : [];
    }),
    edges: shown.flatMap((edge) => {
      const [from, to] = [spots.get(edge.from), spots.get(edge.to)];
      return from && to ? [{ edge, ...curve(from, to), isCyclic: onCycle.has(edge) }] : [];
    }),
    words: [...told].sort((a, b) => Number(onCycle.has(b)) - Number(onCycle.has(a))),
    cyclic: onCycle,
    all: edges.length,
    width: width + 2 * SIDE_MARGIN,
    height: height + 2 * MARGIN,
  };
}

/** The node that stands for a part of a queue. */
const moreNode = (id: string, many: number): WaitNode => ({ id, kind: 'more', clientId: `${many} more` });

/** The way of an edge, and where its name stands. */
function curve(from: Spot, to: Spot): { path: string; label: { x: number; y: number } } {
  const { nodeWidth, nodeHeight } = SIZES;
  const [y1, y2] = [from.y + nodeHeight / 2, to.y + nodeHeight / 2];
  if (from === to) {
    const [x, top] = [from.x + nodeWidth / 2, from.y];
    return { path: `M${x + 24},${top} c0,-24 -48,-24 -48,0`, label: { x, y: top - 20 } };
  }
  if (to.layer > from.layer) {
    const [x1, x2] = [from.x + nodeWidth, to.x - 3];
    const bend = Math.min(80, (x2 - x1) / 2);
    return {
      path: `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`,
      label: { x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 4 },
    };
  }
  // What closes a cycle goes back below the nodes.
  const low = Math.max(from.y, to.y) + nodeHeight;
  const [x1, x2] = [from.x + nodeWidth / 2, to.x + nodeWidth / 2];
  const bottom = low + 26;
  return {
    path: `M${x1},${from.y + nodeHeight} C${x1},${bottom} ${x2},${bottom} ${x2},${to.y + nodeHeight + 3}`,
    label: { x: (x1 + x2) / 2, y: low + 18 },
  };
}

function short(text: string, most: number): string {
  const shown = plain(text);
  return shown.length > most ? `${shown.slice(0, most - 1)}…` : shown;
}

function Picture({ drawing, present }: { drawing: Drawing; present: Present }) {
  const [near, setNear] = useState<string | undefined>();
  const isNear = ({ edge }: Drawing['edges'][number]) => near === undefined || edge.from === near || edge.to === near;
  const { width, height } = drawing;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keys
    <section class="card graph" tabIndex={0} aria-label="Picture of who waits for whom; the list below says the same">
      <svg
        width={width}
        height={height}
        style={{ minWidth: `${Math.round(width * LEAST_SCALE)}px` }}
        viewBox={`${-SIDE_MARGIN} ${-MARGIN} ${width} ${height}`}
        role="presentation"
      >
        <defs>
          {['plain', 'cyclic'].map((kind) => (
            <marker
              key={kind}
              id={`arrow-${kind}`}
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerUnits="userSpaceOnUse"
              markerWidth="9"
              markerHeight="9"
              orient="auto"
            >
              <path class={`arrow arrow-${kind}`} d="M0,0 8,4 0,8z" />
            </marker>
          ))}
        </defs>
        {drawing.edges.map((it) => (
          <g
            key={`${it.edge.from} ${it.edge.to} ${it.edge.name}`}
            class={`edge${it.isCyclic ? ' cyclic' : ''}${isNear(it) ? '' : ' far'}`}
          >
            <path d={it.path} marker-end={`url(#arrow-${it.isCyclic ? 'cyclic' : 'plain'})`} />
            <text x={it.label.x} y={it.label.y}>
              {short(it.edge.name, 14)}
              <title>{`${plain(it.edge.name)}: waits for ${length(it.edge, present)}`}</title>
            </text>
          </g>
        ))}
        {drawing.nodes.map(({ node, spot, isCyclic }) => (
          <a
            key={node.id}
            href={addressOf(node)}
            onMouseEnter={() => setNear(node.id)}
            onMouseLeave={() => setNear(undefined)}
            tabIndex={-1}
          >
            <g
              class={`node kind-${node.kind}${isCyclic ? ' cyclic' : ''}`}
              transform={`translate(${spot.x},${spot.y})`}
            >
              <title>{plain(node.clientId)}</title>
              <rect width={SIZES.nodeWidth} height={SIZES.nodeHeight} rx="8" />
              <rect class="stripe" width="4" height={SIZES.nodeHeight - 16} x="7" y="8" rx="2" />
              <text x="20" y="17">
                {short(node.clientId, 17)}
              </text>
              <text class="soft" x="20" y="32">
                {PARTY[node.kind] ?? 'client'}
              </text>
            </g>
          </a>
        ))}
      </svg>
    </section>
  );
}

const PARTY: Readonly<Record<string, string>> = { offline: 'owner', claim: 'claim', more: 'in this queue' };

function addressOf({ id, kind, clientId }: WaitNode): string {
  if (kind === 'more') return linkTo('locks', { state: 'pending', sort: 'age' });
  if (kind === 'offline') return linkTo('owners', { owner: id.replace(/^o:/, '') });
  return linkTo('locks', { client: clientId });
}

function Cycles({
  cycles,
  labels,
  edges,
}: {
  cycles: string[][];
  labels: ReadonlyMap<string, string>;
  edges: WaitEdge[];
}) {
  if (cycles.length === 0) return null;
  const names = steps(cycles, edges).map((cycle) => cycle.map((edge) => edge?.name));
  return (
    <div class="notice cycles" role="alert">
      <strong>
        {cycles.length === 1 ? 'One cycle' : `${cycles.length} cycles`}: these clients may wait for ever, unless one of
        them holds and asks in tasks of their own.
      </strong>
      <span>
        If they hang, break one hold, or end one of the programs. Each name leads to its page: Break is there, beside
        the hold.
      </span>
      <ol>
        {cycles.map((cycle, at) => (
          <li key={JSON.stringify([cycle, names[at]])}>
            {cycle.map((node, index) => {
              const name = names[at]?.[index];
              return (
                <span key={JSON.stringify([node, name])} class="cycle-step">
                  <Text text={labels.get(node) ?? node} /> waits for{' '}
                  {name === undefined ? null : <NameLink name={name} />} →{' '}
                </span>
              );
            })}
            <Text text={labels.get(cycle[0] ?? '') ?? cycle[0] ?? ''} />
          </li>
        ))}
      </ol>
    </div>
  );
}

const LISTED = 100;

/** The kind that the first letter of an id says. */
const kindOf = (id: string) => (id.startsWith('o:') ? 'offline' : id.startsWith('c:') ? 'claim' : 'web');

/** For how long an arrow has been there. */
const length = ({ key }: Arrow, present: Present): string => duration(present.get(key)?.sinceMs ?? Number.NaN);

function EdgeList(props: { labels: ReadonlyMap<string, string>; drawing: Drawing; present: Present }) {
  const { labels, drawing, present } = props;
  const shown = drawing.words.slice(0, LISTED);
  return (
    <section class="card" aria-labelledby="edges-title">
      <h2 id="edges-title">
        In words{' '}
        <span class="soft">
          {drawing.all > shown.length
            ? `${shown.length} of ${drawing.all}; what follows from these is left out`
            : drawing.all}
        </span>
      </h2>
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Who waits</th>
            <th scope="col">For whom</th>
            <th scope="col">Name</th>
            <th scope="col" class="number">
              For how long
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((edge) => (
            <tr key={`${edge.from} ${edge.to} ${edge.name}`} class={drawing.cyclic.has(edge) ? 'cyclic' : undefined}>
              <td>
                <Text text={labels.get(edge.from) ?? edge.from} />{' '}
                <ModeMark mode={present.get(edge.key)?.mode ?? null} />
              </td>
              <td>
                <Text text={labels.get(edge.to) ?? edge.to} /> <KindMark kind={kindOf(edge.to)} />
              </td>
              <td>
                <NameLink name={edge.name} />
              </td>
              <td class="number">{length(edge, present)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
