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

/** The edges between nodes that are on one cycle: those that a path leads back from. */
export function cyclic<E extends Edge>(nodes: readonly string[], edges: readonly E[]): Set<E> {
  const part = components(nodes, edges);
  return new Set(edges.filter(({ from, to }) => part.get(from) === part.get(to)));
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

/** The strongly connected component of each node, by number: Tarjan's algorithm, without recursion. */
function components(nodes: readonly string[], edges: readonly Edge[]): Map<string, number> {
  const next = outgoing(nodes, edges);
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const found = new Map<string, number>();
  const stack: string[] = [];
  const open: { node: string; at: number }[] = [];
  let parts = 0;
  const enter = (node: string) => {
    index.set(node, index.size);
    low.set(node, index.size - 1);
    stack.push(node);
    open.push({ node, at: 0 });
  };
  const lower = (node: string, to: number) => low.set(node, Math.min(low.get(node) ?? to, to));
  const leave = (node: string) => {
    open.pop();
    const above = open.at(-1);
    if (above) lower(above.node, low.get(node) ?? 0);
    if (low.get(node) !== index.get(node)) return;
    let taken: string | undefined;
    do {
      taken = stack.pop();
      if (taken !== undefined) found.set(taken, parts);
    } while (taken !== undefined && taken !== node);
    parts += 1;
  };
  for (const start of nodes) {
    if (!index.has(start)) enter(start);
    for (let top = open.at(-1); top; top = open.at(-1)) {
      const to = next.get(top.node)?.[top.at++];
      if (to === undefined) leave(top.node);
      else if (!index.has(to)) enter(to);
      else if (!found.has(to)) lower(top.node, index.get(to) ?? 0);
    }
  }
  return found;
}

/** The targets of each node. */
export function outgoing(nodes: readonly string[], edges: readonly Edge[]): Map<string, string[]> {
  const next = new Map<string, string[]>(nodes.map((node) => [node, []]));
  for (const { from, to } of edges) next.get(from)?.push(to);
  return next;
}
