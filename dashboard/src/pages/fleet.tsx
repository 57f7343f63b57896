import { call } from '../data/api';
import { usePolled } from '../data/live';
import type { Cluster } from '../data/types';
import { count } from '../logic/causes';
import { plain } from '../logic/names';
import { duration } from '../logic/times';
import { Empty } from '../parts/marks';
import { Text } from '../parts/name';
import { Notice } from '../parts/notice';

/** As many nodes have a colour of their own. */
const COLOURS = 8;

/** The nodes of a fleet, and which of them has which slot. */
export function Fleet() {
  const { value, problem } = usePolled(
    'cluster',
    (signal) => call<Cluster>('GET', '/v1/cluster', {}, undefined, signal),
    3000,
  );
  if (problem?.status === 404) {
    return (
      <>
        <h1>Fleet</h1>
        <Empty title="This server is no node of a fleet." command="cargo xtask local-cluster">
          Several servers over one PostgreSQL share the buckets. In a clone of the repository, this command starts three
          of them.
        </Empty>
      </>
    );
  }
  const nodes = value?.nodes ?? [];
  const colour = new Map(nodes.map((node, index) => [node.node, index % COLOURS]));
  return (
    <>
      <h1>Fleet</h1>
      <Notice problem={problem} />
      {value ? (
        <>
          <p class="lead">
            {many(nodes.length, 'node')}, {many(value.slots.length, 'slot')},{' '}
            {value.moving === 0 ? 'none of them on the move' : `${value.moving} of them on the move`}. This page comes
            from <Text text={value.node} />.
          </p>
          <ul class="nodes">
            {nodes.map((node) => (
              <NodeCard key={node.node} node={node} colour={colour.get(node.node) ?? 0} />
            ))}
          </ul>
          <SlotMap cluster={value} colour={colour} />
        </>
      ) : null}
    </>
  );
}

const many = (number: number, noun: string) => `${count(number)} ${noun}${number === 1 ? '' : 's'}`;

function NodeCard({ node, colour }: { node: Cluster['nodes'][number]; colour: number }) {
  const trouble = node.unreachable ?? node.notReady;
  return (
    <li class={trouble ? 'card node trouble' : 'card node'}>
      <h2>
        <span class={`swatch node-${colour}`} aria-hidden="true" />
        <Text text={node.node} />
      </h2>
      <dl>
        <dt>Phase</dt>
        <dd>{node.phase ?? 'unknown'}</dd>
        <dt>Slots</dt>
        <dd>{node.owns}</dd>
        <dt>Address</dt>
        <dd>
          <Text text={node.address} />
        </dd>
        <dt>Version</dt>
        <dd>{node.version ?? '–'}</dd>
        {node.unconfirmedMs === undefined ? null : (
          <>
            <dt>Last commit</dt>
            <dd>{duration(node.unconfirmedMs)} ago</dd>
          </>
        )}
      </dl>
      {trouble ? <p class="over">{plain(trouble)}</p> : null}
    </li>
  );
}

/** How a slot looks in a state; in all others it is hatched. */
const LOOKS: Readonly<Record<string, string>> = { serving: '', free: '', unservable: ' unservable' };

/** As many slots of a state are listed. */
const LISTED = 16;

/** The slots whose buckets no node serves now, in words. */
function Unserved({ slots }: { slots: Cluster['slots'] }) {
  const states = [...new Set(slots.map(({ state }) => state))].filter((state) => state !== 'serving').sort();
  return states.map((state) => {
    const of = slots.filter((it) => it.state === state).map(({ slot }) => slot);
    const more = of.length > LISTED ? ` and ${count(of.length - LISTED)} more` : '';
    return (
      <p key={state} class={state === 'unservable' ? 'over' : undefined}>
        {many(of.length, 'slot')} {state}: {of.slice(0, LISTED).join(', ')}
        {more}
      </p>
    );
  });
}

function SlotMap({ cluster, colour }: { cluster: Cluster; colour: ReadonlyMap<string, number> }) {
  return (
    <section class="card" aria-labelledby="slots-title">
      <h2 id="slots-title">Slots</h2>
      <ul class="slots">
        {cluster.slots.map(({ slot, node, epoch, state }) => {
          const what = `slot ${slot}: ${node === null ? 'free' : plain(node)}, ${state}, epoch ${epoch}`;
          const own = node === null ? 'node-free' : `node-${colour.get(node) ?? 0}`;
          return (
            <li key={slot} class={`slot ${own}${LOOKS[state] ?? ' unsettled'}`} title={what}>
              <span class="hidden">{what}</span>
            </li>
          );
        })}
      </ul>
      <Unserved slots={cluster.slots} />
      <p class="soft">
        Each bucket belongs to one slot. A slot that moves, recovers or does not say how it is, is hatched; one that
        cannot be served is crossed out in red.
      </p>
    </section>
  );
}
