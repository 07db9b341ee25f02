// What the reader has chosen, and who wants to know when it changes.

import { floats, integers, type Page } from "./data";
import { LEAF, Forest, type Answer } from "./forest";
import { leavesBelow } from "./layout";
import { Words } from "./words";

/** What changed: cells of the row; the tree, its folds or its highlights; the selected node. */
export type Change = "row" | "tree" | "selection";

/** The row that the reader began with. */
export interface Origin {
  /** Its place among the rows of the page; -1 for the typical row. */
  readonly place: number;
  readonly cells: Float64Array;
  readonly answer: Answer;
}

const FIRST_LEAVES = 20; // that a tree shows before the reader unfolds more

export class State {
  row: Float64Array;
  origin: Origin;
  answer: Answer;
  tree = 0;
  selected = -1;
  /** The column whose splits are marked; -1 for none. */
  sought = -1;
  private readonly opened = new Map<number, Set<number>>();
  private readonly listeners: ((change: Change) => void)[] = [];

  /** Words with all names in full, for lists, and for the picture. */
  readonly full: Words;
  readonly medium: Words;
  readonly short: Words;

  private constructor(
    readonly page: Page,
    readonly forest: Forest,
    readonly sample: Float64Array,
    readonly truth: Float64Array | null,
    readonly typical: Float64Array,
    readonly rowsAt: Int32Array,
    readonly classesAt: Int32Array | null,
    readonly meansAt: Float64Array | null,
  ) {
    this.full = new Words(forest, Infinity);
    this.medium = new Words(forest, 60);
    this.short = new Words(forest, 24);
    const cells = page.sample.index.length ? this.sampleRow(0) : typical;
    this.row = cells.slice();
    this.answer = forest.answer(cells);
    this.origin = { place: page.sample.index.length ? 0 : -1, cells, answer: this.answer };
    this.tree = this.leadingTrees()[0];
  }

  static async read(page: Page): Promise<State> {
    const { sample, passing } = page;
    return new State(
      page,
      ...(await Promise.all([
        Forest.read(page.forest, page.spreads),
        floats(sample.cells),
        sample.truth && floats(sample.truth),
        floats(page.typical),
        integers(passing.rows),
        passing.classes && integers(passing.classes),
        passing.means && floats(passing.means),
      ])),
    );
  }

  onChange(listener: (change: Change) => void): void {
    this.listeners.push(listener);
  }

  private tell(change: Change): void {
    for (const listener of this.listeners) listener(change);
  }

  // ---------------------------------------------------------------- the row

  sampleRow(place: number): Float64Array {
    const width = this.forest.columns;
    return this.sample.subarray(place * width, (place + 1) * width);
  }

  /** The true answer of a row of the page: a class number, or a number. */
  truthOf(place: number): Float64Array | null {
    if (this.truth === null || place < 0) return null;
    const width = this.page.forest.classes !== null ? 1 : this.forest.outputs;
    return this.truth.subarray(place * width, (place + 1) * width);
  }

  /** Begin with a row of the page, or with the typical row (-1). */
  pick(place: number): void {
    const cells = place < 0 ? this.typical : this.sampleRow(place);
    this.origin = { place, cells, answer: this.forest.answer(cells) };
    this.setRow(cells);
  }

  setRow(cells: Float64Array): void {
    this.row = cells.slice();
    this.answer = this.forest.answer(this.row);
    this.tell("row");
  }

  setCell(column: number, value: number): void {
    if (Object.is(this.row[column], value)) return;
    this.row[column] = value;
    this.answer = this.forest.answer(this.row);
    this.tell("row");
  }

  /** Columns whose cell is not that of the row that the reader began with. */
  changed(): number[] {
    return [...this.row.keys()].filter((column) => !Object.is(this.row[column], this.origin.cells[column]));
  }

  /** Trees in the order of how much they say: by their weight, or, where all weigh the same, by what they add. */
  leadingTrees(): number[] {
    const size = this.treeSizes();
    return [...size.keys()].sort((a, b) => size[b] - size[a] || a - b);
  }

  /** How much each tree says about the row: its share, or the size of what it adds. */
  treeSizes(): Float64Array {
    const { forest, answer } = this;
    if (forest.page.combine === "softmax") return answer.weights;
    const result = new Float64Array(forest.trees);
    for (let tree = 0; tree < forest.trees; tree++) {
      for (let k = 0; k < forest.outputs; k++) {
        result[tree] += Math.abs(answer.treeOutputs[tree * forest.outputs + k]) * answer.weights[tree];
      }
    }
    return result;
  }

  // ---------------------------------------------------------------- the tree

  /** The unfolded splits of a tree: at first some levels; and always the path of the row. */
  openIn(tree: number): Set<number> {
    let open = this.opened.get(tree);
    if (open === undefined) {
      open = this.firstLevels(tree);
      this.opened.set(tree, open);
    }
    return open;
  }

  private firstLevels(tree: number): Set<number> {
    const { forest } = this;
    const open = new Set<number>();
    const start = forest.treeStart[tree];
    const all = leavesBelow(forest, tree)[0] <= FIRST_LEAVES * 1.5;
    const waiting = [start];
    for (let k = 0; k < waiting.length && (all || open.size < FIRST_LEAVES); k++) {
      const node = waiting[k];
      if (forest.kind[node] === LEAF) continue;
      open.add(node);
      waiting.push(forest.left[node], forest.right[node]);
    }
    return open;
  }

  showTree(tree: number): void {
    this.tree = tree;
    this.selected = -1;
    this.tell("tree");
  }

  fold(node: number, folded: boolean): void {
    const open = this.openIn(this.forest.treeOf[node]);
    if (folded) open.delete(node);
    else open.add(node);
    this.tell("tree");
  }

  foldAll(folded: boolean): void {
    const { forest, tree } = this;
    const open = this.openIn(tree);
    open.clear();
    for (let node = forest.treeStart[tree]; !folded && node < forest.treeStart[tree + 1]; node++) {
      if (forest.kind[node] !== LEAF) open.add(node);
    }
    this.tell("tree");
  }

  /** Unfold what is above a node, so that it is drawn. */
  reveal(node: number): void {
    const open = this.openIn(this.forest.treeOf[node]);
    for (let above = this.forest.parent[node]; above >= 0; above = this.forest.parent[above]) open.add(above);
  }

  select(node: number): void {
    this.selected = node;
    this.tell("selection");
  }

  /** Show a node: its tree, unfolded as far as it takes. */
  goTo(node: number): void {
    this.reveal(node);
    this.tree = this.forest.treeOf[node];
    this.selected = node;
    this.tell("tree");
  }

  // ---------------------------------------------------------------- search

  seek(column: number): void {
    this.sought = column;
    this.tell("tree");
  }

  /** The splits that look at the column sought, in all trees. */
  found(): number[] {
    const { forest, sought } = this;
    const result: number[] = [];
    for (let node = 0; sought >= 0 && node < forest.nodes; node++) {
      if (forest.columnsOf(node).includes(sought)) result.push(node);
    }
    return result;
  }
}
