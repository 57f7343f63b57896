// Graphs as sets of nodes and of edges between them: parts, cycles, and what follows from other edges.

/** From one node to another; several edges may join the same two. */
export interface Edge {
  from: string;
  to: string;
}

/** The parts of a graph that no edge joins, each as the set of its nodes. */
export function parts(nodes: readonly string[], edges: readonly Edge[]): string[][] {
  const parent = new Map(nodes.map((node) => [node, node]));
  const root = (node: string): string => {
    let at = node;
    while (parent.get(at) !== at) {
      const above = parent.get(parent.get(at) ?? at) ?? at;
      parent.set(at, above);
      at = above;
    }
    return at;
  };
  for (const { from, to } of edges) parent.set(root(from), root(to));
  const found = new Map<string, string[]>();
  for (const node of nodes) {
    const part = found.get(root(node));
    if (part) part.push(node);
    else found.set(root(node), [node]);
  }
  return [...found.values()];
}

/** The ends of an edge and its name, as one key. */
export const keyOf = ({ from, to, name }: Edge & { name: string }): string => JSON.stringify([from, to, name]);

/** The edges with each name between two nodes once: several agents of one node may wait for the same. */
export function distinct<E extends Edge & { name: string }>(edges: readonly E[]): E[] {
  const found = new Map<string, E>();
  for (const edge of edges) if (!found.has(keyOf(edge))) found.set(keyOf(edge), edge);
  return [...found.values()];
}

/**
 * The edges of each cycle, one for each of its steps: from each node to the next, and from the last to the
 * first. The edges of cycles come first and in their order, so that a step takes the first that no step
 * before it has taken: a node that stands for several agents may wait for itself in many ways, of which only
 * these are on a cycle.
 */
export function steps<E extends Edge>(
  cycles: readonly (readonly string[])[],
  edges: readonly E[],
): (E | undefined)[][] {
  const left = new Map<string, E[]>();
  for (const edge of edges) {
    const key = JSON.stringify([edge.from, edge.to]);
    const group = left.get(key);
    if (group) group.push(edge);
    else left.set(key, [edge]);
  }
  return cycles.map((cycle) =>
    cycle.map((from, index) => left.get(JSON.stringify([from, cycle[(index + 1) % cycle.length]]))?.shift()),
  );
}

/**
 * The edges without those that others say already: where `a` waits for `b` and both for `c` by one name, that
 * `a` waits for `c` follows. Edges of cycles stay.
 */
export function reduced<E extends Edge & { name: string }>(edges: readonly E[], kept: ReadonlySet<E>): E[] {
  const key = (name: string, from: string, to: string) => JSON.stringify([name, from, to]);
  const known = new Set(edges.map(({ name, from, to }) => key(name, from, to)));
  const targets = new Map<string, string[]>();
  for (const { name, from, to } of edges) {
    const of = JSON.stringify([name, from]);
    targets.set(of, [...(targets.get(of) ?? []), to]);
  }
  return edges.filter((edge) => {
    if (kept.has(edge)) return true;
    const others = targets.get(JSON.stringify([edge.name, edge.from])) ?? [];
    return !others.some(
      (other) => other !== edge.to && other !== edge.from && known.has(key(edge.name, other, edge.to)),
    );
  });
}

/** A graph in which one node may stand for many. */
export interface Folded<E> {
  edges: E[];
  /** What each such node stands for. */
  hidden: Map<string, string[]>;
}

/** Of a line that is longer than this, only the ends are shown. */
const LONGEST_LINE = 6;

/** So many at the front of a folded line stay. */
const FRONT = 2;

/** The graph with the middle of each long line folded: of a queue in which each waits for the one before. */
export function folded<E extends Edge & { name: string }>(edges: readonly E[], kept: ReadonlySet<E>): Folded<E> {
  const out = grouped(edges, (edge) => edge.from);
  const into = grouped(edges, (edge) => edge.to);
  const only = (list: E[] | undefined) => (list?.length === 1 && list[0] && !kept.has(list[0]) ? list[0] : undefined);
  const isInner = (node: string) => {
    const [after, before] = [only(out.get(node)), only(into.get(node))];
    return after !== undefined && before !== undefined && after.name === before.name;
  };
  const hidden = new Map<string, string[]>();
  const gone = new Set<E>();
  const added: E[] = [];
  for (const first of edges) {
    if (isInner(first.from) || !isInner(first.to)) continue;
    const line = [first];
    for (let last = first; isInner(last.to); ) {
      last = only(out.get(last.to)) ?? last;
      line.push(last);
    }
    const end = line[line.length - 1 - FRONT];
    if (line.length <= LONGEST_LINE || !end) continue;
    const middle = line.slice(0, line.length - 1 - FRONT);
    const id = `more:${hidden.size}`;
    hidden.set(
      id,
      middle.map((edge) => edge.to),
    );
    for (const edge of [...middle, end]) gone.add(edge);
    added.push({ ...first, to: id }, { ...end, from: id });
  }
  return { edges: [...edges.filter((edge) => !gone.has(edge)), ...added], hidden };
}

function grouped<E>(edges: readonly E[], by: (edge: E) => string): Map<string, E[]> {
  const found = new Map<string, E[]>();
  for (const edge of edges) {
    const group = found.get(by(edge));
    if (group) group.push(edge);
    else found.set(by(edge), [edge]);
  }
  return found;
}

/** The targets of each node. */
export function outgoing(nodes: readonly string[], edges: readonly Edge[]): Map<string, string[]> {
  const next = new Map<string, string[]>(nodes.map((node) => [node, []]));
  for (const { from, to } of edges) next.get(from)?.push(to);
  return next;
}
