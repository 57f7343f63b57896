// A layered layout: who waits is left of whom it waits for, as far as cycles permit.

import { type Edge, outgoing, parts } from './graph';

/** Sizes of the drawing, in pixels. */
export interface Sizes {
  nodeWidth: number;
  nodeHeight: number;
  columnGap: number;
  rowGap: number;
  partGap: number;
}

/** Where a node is drawn: its upper left corner. */
export interface Spot {
  x: number;
  y: number;
  layer: number;
}

export interface Layout {
  spots: Map<string, Spot>;
  width: number;
  height: number;
}

/** So many times the order within layers is made better. */
const SWEEPS = 8;

/** Lays out every part of the graph by itself, one below the other; `first` says which parts come first. */
export function layout(
  nodes: readonly string[],
  edges: readonly Edge[],
  sizes: Sizes,
  first: (part: readonly string[]) => number = () => 0,
): Layout {
  const whole: Layout = { spots: new Map(), width: 0, height: 0 };
  const all = parts(nodes, edges).sort((a, b) => first(b) - first(a) || b.length - a.length);
  for (const part of all) {
    const inside = new Set(part);
    const own = edges.filter(({ from }) => inside.has(from));
    const top = whole.height === 0 ? 0 : whole.height + sizes.partGap;
    const columns = ordered(layered(part, own), own);
    const tallest = Math.max(...columns.map((column) => column.length));
    const rows = (count: number) => count * (sizes.nodeHeight + sizes.rowGap) - sizes.rowGap;
    columns.forEach((column, layer) => {
      const x = layer * (sizes.nodeWidth + sizes.columnGap);
      const start = top + (rows(tallest) - rows(column.length)) / 2;
      column.forEach((node, row) => {
        whole.spots.set(node, { x, y: start + row * (sizes.nodeHeight + sizes.rowGap), layer });
      });
    });
    const width = columns.length * (sizes.nodeWidth + sizes.columnGap) - sizes.columnGap;
    whole.width = Math.max(whole.width, width);
    whole.height = top + rows(tallest);
  }
  return whole;
}

/** The nodes in columns: each edge but those that close a cycle leads to a column further right. */
function layered(nodes: readonly string[], edges: readonly Edge[]): string[][] {
  const order = forward(nodes, edges);
  const depth = new Map(nodes.map((node) => [node, 0]));
  // From the end of every chain: the last are the holders, who wait for none.
  for (const node of order.finished) {
    const below = order.next.get(node) ?? [];
    depth.set(node, Math.max(0, ...below.map((to) => (depth.get(to) ?? 0) + 1)));
  }
  const deepest = Math.max(0, ...depth.values());
  const columns: string[][] = Array.from({ length: deepest + 1 }, () => []);
  for (const node of nodes) columns[deepest - (depth.get(node) ?? 0)]?.push(node);
  return columns;
}

/** The edges without those that close a cycle; the nodes, each after all that it leads to. */
function forward(nodes: readonly string[], edges: readonly Edge[]) {
  const all = outgoing(nodes, edges);
  const next = new Map<string, string[]>(nodes.map((node) => [node, []]));
  const state = new Map<string, 'open' | 'done'>();
  const finished: string[] = [];
  const arrivals = new Set(edges.map(({ to }) => to));
  const starts = [...nodes].sort((a, b) => Number(arrivals.has(a)) - Number(arrivals.has(b)));
  for (const start of starts) {
    if (state.has(start)) continue;
    const open = [{ node: start, at: 0 }];
    state.set(start, 'open');
    for (let top = open.at(-1); top; top = open.at(-1)) {
      const to = all.get(top.node)?.[top.at++];
      if (to === undefined) {
        state.set(top.node, 'done');
        finished.push(top.node);
        open.pop();
      } else if (state.get(to) !== 'open') {
        next.get(top.node)?.push(to);
        if (!state.has(to)) {
          state.set(to, 'open');
          open.push({ node: to, at: 0 });
        }
      }
    }
  }
  return { next, finished };
}

/** The columns with each node near the middle of its neighbours, so that fewer edges cross. */
function ordered(columns: string[][], edges: readonly Edge[]): string[][] {
  const neighbours = new Map<string, string[]>();
  for (const { from, to } of edges) {
    neighbours.set(from, [...(neighbours.get(from) ?? []), to]);
    neighbours.set(to, [...(neighbours.get(to) ?? []), from]);
  }
  const place = new Map<string, number>();
  const note = (column: string[]) => {
    column.forEach((node, row) => {
      place.set(node, row - (column.length - 1) / 2);
    });
  };
  columns.forEach(note);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const pass = sweep % 2 === 0 ? columns : [...columns].reverse();
    for (const column of pass) {
      const middle = new Map(
        column.map((node) => [node, mean(neighbours.get(node) ?? [], place) ?? place.get(node) ?? 0]),
      );
      column.sort((a, b) => (middle.get(a) ?? 0) - (middle.get(b) ?? 0));
      note(column);
    }
  }
  return columns;
}

function mean(nodes: readonly string[], place: ReadonlyMap<string, number>): number | undefined {
  const known = nodes.map((node) => place.get(node)).filter((at) => at !== undefined);
  return known.length === 0 ? undefined : known.reduce((total, at) => total + at, 0) / known.length;
}
