// Where the nodes of a tree stand: a tidy layout with the root on the left, the left child above the right.

import type { Forest } from "./forest";
import { LEAF } from "./forest";

export interface Place {
  readonly node: number;
  readonly depth: number;
  /** How far down it stands; nodes of one depth are at least 1 apart. */
  readonly row: number;
  /** How many leaves are hidden beneath it; 0 for a node that is drawn in full. */
  readonly folded: number;
}

/** The number of leaves below each node of one tree, by the node's place in the tree. */
export function leavesBelow(forest: Forest, tree: number): Int32Array {
  const start = forest.treeStart[tree];
  const below = new Int32Array(forest.treeStart[tree + 1] - start);
  for (let k = below.length - 1; k >= 0; k--) {
    const node = start + k;
    below[k] =
      forest.kind[node] === LEAF ? 1 : below[forest.left[node] - start] + below[forest.right[node] - start];
  }
  return below;
}

/** Place the nodes of one tree whose ancestors are all open, in reading order: a node, what is above, what is below.
 *
 * Subtrees are moved together until their outlines nearly touch (Reingold and Tilford, 1981), without recursion.
 */
export function layout(forest: Forest, tree: number, open: ReadonlySet<number>): Place[] {
  const root = forest.treeStart[tree];
  const below = leavesBelow(forest, tree);
  const order: { node: number; depth: number }[] = [];
  const waiting = [{ node: root, depth: 0 }];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    order.push(next);
    if (forest.kind[next.node] === LEAF || !open.has(next.node)) continue;
    waiting.push({ node: forest.right[next.node], depth: next.depth + 1 });
    waiting.push({ node: forest.left[next.node], depth: next.depth + 1 });
  }

  // Outlines, deepest level first, so that common levels are compared and joined without copying the rest.
  const shift = new Map<number, number>();
  const top = new Map<number, number[]>();
  const bottom = new Map<number, number[]>();
  for (let k = order.length - 1; k >= 0; k--) {
    const { node } = order[k];
    if (forest.kind[node] === LEAF || !open.has(node)) {
      top.set(node, [0]);
      bottom.set(node, [0]);
      continue;
    }
    const left = forest.left[node];
    const right = forest.right[node];
    const [low, high] = [bottom.get(left)!, top.get(right)!];
    let apart = 0;
    for (let level = 1; level <= Math.min(low.length, high.length); level++) {
      apart = Math.max(apart, 1 + low[low.length - level] - high[high.length - level]);
    }
    shift.set(left, -apart / 2).set(right, apart / 2);
    top.set(node, joined(top.get(left)!, -apart / 2, high, apart / 2));
    bottom.set(node, joined(bottom.get(right)!, apart / 2, low, -apart / 2));
    for (const child of [left, right]) {
      top.delete(child);
      bottom.delete(child);
    }
  }

  const rows = new Map<number, number>([[root, 0]]);
  let highest = 0;
  for (const { node } of order.slice(1)) {
    const row = rows.get(forest.parent[node])! + shift.get(node)!;
    rows.set(node, row);
    highest = Math.min(highest, row);
  }
  return order.map(({ node, depth }) => ({
    node,
    depth,
    row: rows.get(node)! - highest,
    folded: forest.kind[node] === LEAF || open.has(node) ? 0 : below[node - root],
  }));
}

/** Move two outlines and join them: `first` where it reaches, `second` below that; the node itself is at 0. */
function joined(first: number[], firstBy: number, second: number[], secondBy: number): number[] {
  const result = [];
  for (let level = Math.max(first.length, second.length); level > 0; level--) {
    result.push(
      level <= first.length ? first[first.length - level] + firstBy : second[second.length - level] + secondBy,
    );
  }
  result.push(0);
  return result;
}
