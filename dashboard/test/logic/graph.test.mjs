// The picture of who waits for whom: cycles, what is left out, and where nodes are drawn.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { load } from './support.mjs';

const { distinct, folded, parts, reduced, steps } = await load('logic/graph.ts');
const { layout } = await load('logic/layers.ts');

const SIZES = { nodeWidth: 100, nodeHeight: 40, columnGap: 60, rowGap: 10, partGap: 30 };

/** Edges from text such as `a>b b>c`. */
const graph = (text, name = 'n') => {
  const edges = text.split(' ').map((pair) => {
    const [from, to] = pair.split('>');
    return { from, to, name };
  });
  return { edges, nodes: [...new Set(edges.flatMap(({ from, to }) => [from, to]))] };
};

/** Edges as they were written. */
const said = (edges) => [...edges].map(({ from, to }) => `${from}>${to}`).join(' ');

describe('the steps of cycles', () => {
  /** The names of the edges of each step. */
  const named = (cycles, edges) => steps(cycles, edges).map((cycle) => cycle.map((edge) => edge?.name));

  test('are the edges from each node to the next', () => {
    const edges = [...graph('a>b', 'one').edges, ...graph('b>a', 'two').edges, ...graph('c>a b>c', 'n').edges];
    assert.deepEqual(named([['a', 'b']], edges), [['one', 'two']]);
    assert.deepEqual(named([], edges), []);
  });

  test('are none where a node only waits for itself', () => {
    assert.deepEqual(steps([], graph('a>a b>a a>b').edges), []);
  });

  test('of agents that are one node are an edge each, those that come first', () => {
    const edges = ['one', 'two', 'report', 'report'].flatMap((name) => graph('x>x', name).edges);
    assert.deepEqual(named([['x', 'x']], edges), [['one', 'two']]);
    assert.deepEqual(named([['x', 'x'], ['x']], edges), [['one', 'two'], ['report']]);
  });

  test('may be missing where the answer is cut', () => {
    assert.deepEqual(named([['a', 'b', 'c']], graph('a>b').edges), [['n', undefined, undefined]]);
  });
});

test('edges between the same nodes by one name are drawn once', () => {
  const edges = [...graph('x>x x>x y>x', 'report').edges, ...graph('x>x', 'other').edges];
  assert.deepEqual(
    distinct(edges).map(({ from, to, name }) => `${from}>${to} ${name}`),
    ['x>x report', 'y>x report', 'x>x other'],
  );
});

describe('what follows from other edges', () => {
  test('is left out, but for edges of a cycle', () => {
    const { edges } = graph('c>b c>a b>a d>c d>b d>a');
    assert.equal(said(reduced(edges, new Set())), 'c>b b>a d>c');
    assert.equal(said(reduced(edges, new Set([edges[1]]))), 'c>b c>a b>a d>c');
  });

  test('does not follow over another name', () => {
    const edges = [...graph('c>b b>a', 'n').edges, ...graph('c>a', 'm').edges];
    assert.equal(reduced(edges, new Set()).length, 3);
  });
});

describe('a long queue', () => {
  const queue = (size) => Array.from({ length: size }, (_, at) => `${at}>${at + 1}`).join(' ');

  test('is folded but for its ends', () => {
    const { edges, hidden } = folded(graph(`${queue(9)} z>9`).edges, new Set());
    assert.equal(said(edges), '7>8 8>9 z>9 0>more:0 more:0>7');
    assert.deepEqual([...hidden], [['more:0', ['1', '2', '3', '4', '5', '6']]]);
  });

  test('is not folded if it is short, has another name in it, or is on a cycle', () => {
    assert.equal(folded(graph(queue(6)).edges, new Set()).hidden.size, 0);
    const { edges } = graph(queue(9));
    const mixed = edges.map((edge, at) => ({ ...edge, name: at < 5 ? 'n' : 'm' }));
    assert.equal(folded(mixed, new Set()).hidden.size, 0);
    assert.equal(folded(edges, new Set(edges)).hidden.size, 0);
  });
});

describe('the layout', () => {
  test('has each that waits left of what it waits for, and no two nodes on one spot', () => {
    const { nodes, edges } = graph('w1>h w2>h w3>w2 w3>h x>y y>z v>z');
    const { spots, width, height } = layout(nodes, edges, SIZES);
    for (const { from, to } of edges) assert.ok(spots.get(from).x < spots.get(to).x, `${from} ${to}`);
    const corners = [...spots.values()].map(({ x, y }) => `${x} ${y}`);
    assert.equal(new Set(corners).size, nodes.length);
    for (const { x, y } of spots.values()) {
      assert.ok(x >= 0 && y >= 0 && x + SIZES.nodeWidth <= width && y + SIZES.nodeHeight <= height);
    }
  });

  test('has a cycle in as many columns as it has nodes, and one edge that goes back', () => {
    const { nodes, edges } = graph('a>b b>c c>a');
    const { spots } = layout(nodes, edges, SIZES);
    assert.equal(new Set([...spots.values()].map(({ layer }) => layer)).size, 3);
    assert.equal(edges.filter(({ from, to }) => spots.get(from).layer >= spots.get(to).layer).length, 1);
  });

  test('has the parts below each other, those that come first on top', () => {
    const { nodes, edges } = graph('a>b c>d e>d f>f');
    assert.equal(parts(nodes, edges).length, 3);
    const { spots } = layout(nodes, edges, SIZES, (part) => Number(part.includes('f')));
    assert.ok(spots.get('f').y < spots.get('d').y && spots.get('d').y < spots.get('b').y);
  });

  test('lets edges cross no more than they must', () => {
    const { nodes, edges } = graph('a>x b>y c>z a>y');
    const { spots } = layout(nodes, edges, SIZES);
    const at = (node) => spots.get(node).y;
    const crossings = edges.flatMap((one, index) =>
      edges.slice(index + 1).filter((two) => (at(one.from) - at(two.from)) * (at(one.to) - at(two.to)) < 0),
    );
    assert.deepEqual(crossings, []);
  });
});
