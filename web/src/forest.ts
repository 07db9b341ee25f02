// The forest and its arithmetic: the same comparisons and sums as in Python, in the same order, in float64.

import { bytes, floats, integers, type Page } from "./data";

export const LEAF = 0;
export const THRESHOLD = 1;
export const CATEGORIES = 2;
export const OBLIQUE = 3;

/** Above this size of leaf weights Python takes the softmax over trees row by row. */
const LARGEST_WEIGHT = 300;

/** What the forest says about one row. */
export interface Answer {
  /** The leaf's node in each tree, counted through all trees. */
  readonly leaves: Int32Array;
  /** What each tree says, (trees, outputs). */
  readonly treeOutputs: Float64Array;
  /** The weight of each tree. */
  readonly weights: Float64Array;
  /** Trees put together, before the link. */
  readonly outputs: Float64Array;
  /** After the link: a probability for each class, or the predicted numbers. */
  readonly prediction: Float64Array;
  /** The predicted class; -1 where numbers are predicted. */
  readonly chosen: number;
}

export class Forest {
  private constructor(
    readonly page: Page["forest"],
    private readonly spreads: readonly number[],
    readonly treeStart: Int32Array,
    readonly kind: Uint8Array,
    readonly left: Int32Array,
    readonly right: Int32Array,
    readonly feature: Int32Array,
    readonly threshold: Float64Array,
    readonly missingLeft: Uint8Array,
    readonly leafValues: Float64Array,
    readonly categoryStart: Int32Array | null,
    readonly categoryCodes: Int32Array | null,
    readonly weightStart: Int32Array | null,
    readonly weightFeature: Int32Array | null,
    readonly weightValue: Float64Array | null,
    readonly leafWeights: Float64Array | null,
    readonly leafCoef: Float64Array | null,
    readonly base: Float64Array | null,
  ) {
    this.nodes = kind.length;
    this.trees = treeStart.length - 1;
    this.outputs = page.n_outputs;
    this.columns = page.features.length;
    this.leafOf = new Int32Array(this.nodes).fill(-1);
    this.parent = new Int32Array(this.nodes).fill(-1);
    this.treeOf = new Int32Array(this.nodes);
    let leaf = 0;
    for (let tree = 0; tree < this.trees; tree++) {
      for (let node = treeStart[tree]; node < treeStart[tree + 1]; node++) {
        this.treeOf[node] = tree;
        if (kind[node] === LEAF) {
          this.leafOf[node] = leaf++;
          continue;
        }
        // The document says how far behind its parent a child stands.
        left[node] += node;
        right[node] += node;
        this.parent[left[node]] = node;
        this.parent[right[node]] = node;
      }
    }
    this.largeWeights = leafWeights !== null && leafWeights.some((weight) => Math.abs(weight) > LARGEST_WEIGHT);
  }

  readonly nodes: number;
  readonly trees: number;
  readonly outputs: number;
  readonly columns: number;
  /** The number of each leaf among leaves; -1 at splits. */
  readonly leafOf: Int32Array;
  readonly parent: Int32Array;
  readonly treeOf: Int32Array;
  private readonly largeWeights: boolean;

  static async read(page: Page["forest"], spreads: readonly number[]): Promise<Forest> {
    const packed = page.arrays;
    const optional = <T>(name: string, reader: (array: (typeof packed)[string]) => Promise<T>): Promise<T | null> =>
      name in packed ? reader(packed[name]) : Promise.resolve(null);
    return new Forest(
      page,
      spreads,
      ...(await Promise.all([
        integers(packed.tree_start),
        bytes(packed.kind),
        integers(packed.left),
        integers(packed.right),
        integers(packed.feature),
        floats(packed.threshold),
        bytes(packed.missing_left),
        floats(packed.leaf_values),
        optional("category_start", integers),
        optional("category_codes", integers),
        optional("weight_start", integers),
        optional("weight_feature", integers),
        optional("weight_value", floats),
        optional("leaf_weights", floats),
        optional("leaf_coef", floats),
        optional("base", floats),
      ])),
    );
  }

  /** Whether a leaf is only a summand of the answer. */
  get adds(): boolean {
    return this.page.combine === "sum" && this.trees > 1;
  }

  /** The columns and weights of an oblique split, in stored order. */
  terms(node: number): { column: number; weight: number }[] {
    const result = [];
    for (let k = this.weightStart![node]; k < this.weightStart![node + 1]; k++) {
      result.push({ column: this.weightFeature![k], weight: this.weightValue![k] });
    }
    return result;
  }

  /** The terms of an oblique split, those first that move its sum most: by weight times the column's spread. */
  termsBySize(node: number): { column: number; weight: number; size: number }[] {
    return this.terms(node)
      .map((term) => ({ ...term, size: Math.abs(term.weight) * (this.spreads[term.column] ?? 0) }))
      .sort((a, b) => b.size - a.size || Math.abs(b.weight) - Math.abs(a.weight));
  }

  /** The category codes that a split sends left. */
  codes(node: number): Int32Array {
    return this.categoryCodes!.subarray(this.categoryStart![node], this.categoryStart![node + 1]);
  }

  /** The columns that a split looks at. */
  columnsOf(node: number): number[] {
    if (this.kind[node] === LEAF) return [];
    if (this.kind[node] === OBLIQUE) return this.terms(node).map((term) => term.column);
    return [this.feature[node]];
  }

  /** Whether a cell of a category column is a code of its vocabulary. */
  knows(column: number, cell: number): boolean {
    const words = this.page.features[column].words;
    return words !== undefined && cell >= 0 && cell < words.length && cell === Math.floor(cell);
  }

  /** Whether what a split looks at is missing in a row. */
  misses(node: number, row: Float64Array): boolean {
    const kind = this.kind[node];
    if (kind === THRESHOLD) return Number.isNaN(row[this.feature[node]]);
    if (kind === CATEGORIES) return !this.knows(this.feature[node], row[this.feature[node]]);
    return this.columnsOf(node).some((column) => Number.isNaN(row[column]));
  }

  /** The weighted sum of an oblique split, added up in stored order; NaN where a cell is missing. */
  weighedSum(node: number, row: Float64Array): number {
    let total = 0;
    for (let k = this.weightStart![node]; k < this.weightStart![node + 1]; k++) {
      const cell = row[this.weightFeature![k]];
      if (Number.isNaN(cell)) return NaN;
      total += this.weightValue![k] * cell;
    }
    return total;
  }

  /** Whether a row goes left at a split. */
  goesLeft(node: number, row: Float64Array): boolean {
    if (this.misses(node, row)) return this.missingLeft[node] === 1;
    const kind = this.kind[node];
    if (kind === THRESHOLD) return row[this.feature[node]] < this.threshold[node];
    if (kind === CATEGORIES) return this.codes(node).includes(row[this.feature[node]]);
    return this.weighedSum(node, row) < this.threshold[node];
  }

  /** The nodes that a row passes in one tree, from the root to a leaf. */
  path(tree: number, row: Float64Array): number[] {
    let node = this.treeStart[tree];
    const passed = [node];
    while (this.kind[node] !== LEAF) {
      node = this.goesLeft(node, row) ? this.left[node] : this.right[node];
      passed.push(node);
    }
    return passed;
  }

  private leafNode(tree: number, row: Float64Array): number {
    let node = this.treeStart[tree];
    while (this.kind[node] !== LEAF) node = this.goesLeft(node, row) ? this.left[node] : this.right[node];
    return node;
  }

  /** What a leaf says, times `scale`: its constant, then its terms in column order. */
  private addLeaf(leaf: number, row: Float64Array, scale: number, into: Float64Array, at: number): void {
    for (let k = 0; k < this.outputs; k++) {
      let total = this.leafValues[leaf * this.outputs + k] * scale;
      if (this.leafCoef !== null) {
        for (let column = 0; column < this.columns; column++) {
          const slope = this.leafCoef[(leaf * this.columns + column) * this.outputs + k] * scale;
          if (slope !== 0 && !Number.isNaN(row[column])) total += slope * row[column];
        }
      }
      into[at + k] += total;
    }
  }

  /** The weight of each tree, given the leaf that the row reaches in each. */
  private treeWeights(leaves: Int32Array): Float64Array {
    if (this.page.combine !== "softmax") {
      return new Float64Array(this.trees).fill(this.page.combine === "sum" ? 1 : 1 / this.trees);
    }
    return softmax(Float64Array.from(leaves, (node) => this.leafWeights![this.leafOf[node]]));
  }

  /** Send one row down all trees and put together what they say. */
  answer(row: Float64Array): Answer {
    const leaves = new Int32Array(this.trees);
    for (let tree = 0; tree < this.trees; tree++) leaves[tree] = this.leafNode(tree, row);
    const treeOutputs = new Float64Array(this.trees * this.outputs);
    for (let tree = 0; tree < this.trees; tree++) {
      this.addLeaf(this.leafOf[leaves[tree]], row, 1, treeOutputs, tree * this.outputs);
    }
    const weights = this.treeWeights(leaves);
    const outputs = this.combined(row, leaves, treeOutputs, weights);
    return {
      leaves,
      treeOutputs,
      weights,
      outputs,
      prediction: this.predicted(outputs),
      chosen: this.page.classes === null ? -1 : this.chosenClass(outputs),
    };
  }

  private combined(row: Float64Array, leaves: Int32Array, said: Float64Array, weights: Float64Array): Float64Array {
    const combine = this.page.combine;
    const total = new Float64Array(this.outputs);
    if (combine === "sum" && this.base !== null) total.set(this.base);
    if (combine !== "softmax") {
      for (let tree = 0; tree < this.trees; tree++) {
        for (let k = 0; k < this.outputs; k++) total[k] += said[tree * this.outputs + k];
      }
      if (combine === "mean") for (let k = 0; k < this.outputs; k++) total[k] /= this.trees;
    } else if (this.largeWeights) {
      for (let tree = 0; tree < this.trees; tree++) {
        for (let k = 0; k < this.outputs; k++) total[k] += weights[tree] * said[tree * this.outputs + k];
      }
    } else {
      // A quotient of two sums, as in Python: of what the leaves say times exp(weight), and of exp(weight).
      let divisor = 0;
      for (let tree = 0; tree < this.trees; tree++) {
        const leaf = this.leafOf[leaves[tree]];
        const raised = Math.exp(this.leafWeights![leaf]);
        this.addLeaf(leaf, row, raised, total, 0);
        divisor += raised;
      }
      for (let k = 0; k < this.outputs; k++) total[k] /= divisor;
    }
    if (combine !== "sum" && this.base !== null) {
      for (let k = 0; k < this.outputs; k++) total[k] += this.base[k];
    }
    return total;
  }

  /** Outputs after the link; for a classifier one probability for each class. */
  predicted(outputs: Float64Array): Float64Array {
    const linked = applyLink(this.page.link, outputs);
    const both = this.page.classes !== null && this.page.link === "sigmoid";
    return both ? Float64Array.of(1 - linked[0], linked[0]) : linked;
  }

  /** The most probable class, the first on a tie, told by outputs: probabilities may round to the same number. */
  private chosenClass(outputs: Float64Array): number {
    if (this.page.link === "sigmoid") return outputs[0] > 0 ? 1 : 0;
    let best = 0;
    for (let k = 0; k < outputs.length; k++) {
      if (Number.isNaN(outputs[k])) return k;
      if (outputs[k] > outputs[best]) best = k;
    }
    return best;
  }

  /** What the tree of a leaf would predict alone; where trees are added up, what the leaf adds. */
  leafAnswer(node: number, row: Float64Array | null): Float64Array {
    const said = new Float64Array(this.outputs);
    const leaf = this.leafOf[node];
    if (row === null) said.set(this.leafValues.subarray(leaf * this.outputs, (leaf + 1) * this.outputs));
    else this.addLeaf(leaf, row, 1, said, 0);
    return this.alone(said);
  }

  /** What one tree's outputs predict alone; where trees are added up, the outputs themselves. */
  alone(said: Float64Array): Float64Array {
    if (this.adds) return said;
    return this.predicted(this.base === null ? said : said.map((value, k) => value + this.base![k]));
  }

  /** Whether a leaf has terms that depend on the row. */
  isLinear(node: number): boolean {
    if (this.leafCoef === null) return false;
    const size = this.columns * this.outputs;
    return this.leafCoef.subarray(this.leafOf[node] * size, (this.leafOf[node] + 1) * size).some((each) => each !== 0);
  }
}

export function softmax(scores: Float64Array): Float64Array {
  const largest = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  const raised = scores.map((score) => Math.exp(score - largest));
  const total = raised.reduce((a, b) => a + b, 0);
  return raised.map((each) => each / total);
}

function applyLink(link: Page["forest"]["link"], outputs: Float64Array): Float64Array {
  if (link === "softmax") return softmax(outputs);
  if (link === "exp") return outputs.map((each) => Math.exp(each));
  if (link === "sigmoid") {
    return outputs.map((score) => {
      const small = Math.exp(-Math.abs(score));
      return (score >= 0 ? 1 : small) / (1 + small);
    });
  }
  return outputs.slice();
}
