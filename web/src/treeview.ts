// One tree as a picture to walk through: pan, zoom, fold, search, and the row's path.

import { h, s, textWidth } from "./dom";
import { LEAF, type Forest } from "./forest";
import { count, counted } from "./format";
import { layout, type Place } from "./layout";
import type { State } from "./state";
import { Viewport, type Box } from "./viewport";
import { largest } from "./words";

const ROW = 46;
const BOX = 34;
const PAD = 12;
const BEND = 34;
const KNOB = 9;
const MISSING = "\u2205";

interface Spot {
  readonly place: Place;
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

export class TreeView {
  readonly element: HTMLElement;
  private readonly svg = s("svg", { class: "canvas", role: "tree" });
  private readonly world = s("g");
  private readonly note = h("p", { class: "sr", role: "status" });
  private readonly view: Viewport;
  private spots = new Map<number, Spot>();
  private shapes = new Map<number, SVGGElement>();
  private edges = new Map<number, SVGPathElement>();
  private order: number[] = [];
  private columnEnds: number[] = [];
  /** The node that the tab key reaches. */
  private cursor = -1;
  private shownTree = -1;
  private followed = -1;

  constructor(private readonly state: State) {
    this.svg.append(this.world);
    this.element = h("div", { class: "stage" }, this.svg as unknown as HTMLElement, this.note);
    this.view = new Viewport(this.element, this.svg, this.world);
    this.listen();
    state.onChange((change) => {
      if (change === "selection") this.mark();
      else if (change === "row") this.followRow();
      else this.draw();
    });
    new ResizeObserver(() => {
      if (!this.view.moved) this.fit();
    }).observe(this.element);
    this.followed = this.leaf();
    state.reveal(this.followed);
    this.draw();
  }

  private get forest(): Forest {
    return this.state.forest;
  }

  private leaf(): number {
    return this.state.answer.leaves[this.state.tree];
  }

  // ---------------------------------------------------------------- drawing

  /** Show the row's new path; what is folded above its leaf is unfolded when the leaf is another one. */
  private followRow(): void {
    const leaf = this.leaf();
    if (leaf !== this.followed) {
      this.followed = leaf;
      this.state.reveal(leaf);
      if (!this.spots.has(leaf)) return this.draw();
    }
    // Linear leaves say another number for each row.
    if (this.forest.leafCoef !== null) return this.draw();
    this.mark();
  }

  private draw(): void {
    const { state } = this;
    const { tree } = state;
    const focused = this.svg.contains(document.activeElement) ? this.cursor : -1;
    const another = tree !== this.shownTree;
    if (another) {
      this.followed = this.leaf();
      state.reveal(this.followed);
      this.cursor = this.forest.treeStart[tree];
    }
    this.shownTree = tree;
    const places = layout(this.forest, tree, state.openIn(tree));
    this.arrange(places);
    this.order = places.map((place) => place.node);
    if (!this.spots.has(this.cursor)) this.cursor = this.nearestShown(this.cursor);
    this.shapes.clear();
    this.edges.clear();
    const branches = s("g", { "aria-hidden": "true" });
    const paths = s("g", { "aria-hidden": "true" });
    const conditions = s("g", { "aria-hidden": "true" });
    const nodes = s("g", { role: "presentation" });
    for (const spot of this.spots.values()) {
      this.drawEdge(branches, paths, conditions, spot);
      nodes.append(this.drawNode(spot));
    }
    this.world.replaceChildren(branches, paths, conditions, nodes);
    const splits = places.filter(({ node }) => this.forest.kind[node] !== LEAF).length;
    const label = this.forest.trees === 1 ? "The tree" : `Tree ${tree}`;
    this.svg.setAttribute("aria-label", `${label}, ${counted(splits, "split")} shown. Arrow keys walk, space folds.`);
    this.mark();
    if (another || !this.view.moved) this.fit();
    if (focused >= 0) this.shapes.get(this.cursor)?.focus({ preventScroll: true });
    if (this.spots.has(state.selected)) this.bringIn(state.selected);
  }

  private nearestShown(node: number): number {
    let at = node;
    while (at >= 0 && !this.spots.has(at)) at = this.forest.parent[at];
    return at >= 0 ? at : this.forest.treeStart[this.state.tree];
  }

  /** Columns of equal depth; each is as wide as its widest box, and branches as their longest condition. */
  private arrange(places: readonly Place[]): void {
    const widths = new Map(places.map((place) => [place.node, this.boxWidth(place)]));
    const boxes: number[] = [];
    const labels: number[] = [];
    for (const place of places) {
      boxes[place.depth] = Math.max(boxes[place.depth] ?? 0, widths.get(place.node)!);
      if (place.depth) labels[place.depth] = Math.max(labels[place.depth] ?? 0, textWidth(this.edgeText(place.node), 12, 400));
    }
    const starts = [0];
    for (let depth = 1; depth < boxes.length; depth++) {
      starts[depth] = starts[depth - 1] + boxes[depth - 1] + KNOB * 2 + BEND + labels[depth] + 6;
    }
    this.columnEnds = starts.map((start, depth) => start + boxes[depth]);
    this.spots = new Map(
      places.map((place) => [
        place.node,
        { place, x: starts[place.depth], y: place.row * ROW, width: widths.get(place.node)! },
      ]),
    );
  }

  private countAt(node: number): number {
    return this.state.rowsAt[node];
  }

  private boxText(place: Place): [string, string] {
    const { node } = place;
    const rows = count(this.countAt(node));
    if (this.forest.kind[node] !== LEAF) {
      return [this.state.short.subject(node), place.folded ? counted(place.folded, "leaf", "leaves") : rows];
    }
    // A linear leaf says a number for the row that is there, and for no other.
    return [this.state.short.leaf(node, node === this.leaf() ? this.state.row : null), rows];
  }

  private boxWidth(place: Place): number {
    const [first, second] = this.boxText(place);
    return Math.max(84, textWidth(first, 13, 600) + textWidth(second, 11, 400) + 2 * PAD + 14);
  }

  private edgeText(node: number): string {
    const { forest } = this;
    const above = forest.parent[node];
    const left = forest.left[above] === node;
    const missing = (forest.missingLeft[above] === 1) === left ? ` ${MISSING}` : "";
    return this.state.short.relation(above, left) + missing;
  }

  private thickness(node: number): number {
    const all = this.countAt(this.forest.treeStart[this.state.tree]);
    return 1 + (all ? (9 * this.countAt(node)) / all : 0);
  }

  private drawEdge(branches: SVGGElement, paths: SVGGElement, conditions: SVGGElement, spot: Spot): void {
    const { node } = spot.place;
    const above = this.spots.get(this.forest.parent[node]);
    if (above === undefined) return;
    const from = above.x + above.width + KNOB;
    const bend = this.columnEnds[above.place.depth] + KNOB * 2 - 4;
    const middle = bend + BEND / 2;
    const curve = `C${middle} ${above.y} ${middle} ${spot.y} ${bend + BEND} ${spot.y}`;
    const line = `M${from} ${above.y}H${bend}${curve}H${spot.x}`;
    const thick = this.thickness(node);
    branches.append(s("path", { d: line, class: "branch", "stroke-width": thick.toFixed(1) }));
    const path = s("path", { d: line, class: "on-path" });
    this.edges.set(node, path);
    paths.append(path);
    conditions.append(
      s("text", { x: spot.x - 8, y: spot.y - 4 - thick / 2, "text-anchor": "end", class: "condition" }, this.edgeText(node)),
    );
  }

  private drawNode(spot: Spot): SVGGElement {
    const { forest, state } = this;
    const { place, width } = spot;
    const { node } = place;
    const leaf = forest.kind[node] === LEAF;
    const [first, second] = this.boxText(place);
    const open = leaf ? undefined : !place.folded;
    const shape = s("g", {
      class: `node ${leaf ? "leaf" : "split"}${place.folded ? " folded" : ""}`,
      transform: `translate(${spot.x} ${spot.y})`,
      role: "treeitem",
      "data-node": node,
      "aria-level": place.depth + 1,
      "aria-setsize": place.depth ? 2 : 1,
      "aria-posinset": place.depth && forest.right[forest.parent[node]] === node ? 2 : 1,
      "aria-expanded": open === undefined ? null : String(open),
      "aria-label": this.spoken(place),
      tabindex: node === this.cursor ? 0 : -1,
    });
    shape.append(s("title", {}, this.spoken(place)));
    const frame = { y: -BOX / 2, width, height: BOX, rx: leaf ? 6 : BOX / 2 };
    shape.append(s("rect", { class: "halo", x: -4, y: -BOX / 2 - 4, width: width + 8, height: BOX + 8, rx: leaf ? 9 : BOX / 2 + 4 }));
    shape.append(s("rect", { ...frame, class: "frame" }));
    let baseline = 4.5;
    if (leaf) {
      const answer = forest.isLinear(node) ? null : forest.leafAnswer(node, null);
      const paint = this.leafPaint(node);
      if (paint) {
        const tint = s("rect", { ...frame, class: "tint" });
        tint.style.setProperty("--paint", paint);
        shape.append(tint);
      }
      if (answer !== null && forest.page.classes !== null && !forest.adds) {
        baseline = 1.5;
        this.drawShares(shape, answer, width);
      }
    }
    shape.append(s("text", { x: PAD, y: baseline, class: "first" }, first));
    shape.append(s("text", { x: width - PAD, y: baseline, class: "second", "text-anchor": "end" }, second));
    if (!leaf) {
      const knob = s("g", { class: "knob", transform: `translate(${width + KNOB} 0)`, "data-fold": node });
      knob.append(s("circle", { r: 14, class: "reach" }), s("circle", { r: KNOB, class: "disc" }));
      knob.append(s("path", { d: place.folded ? "M-4 0H4M0 -4V4" : "M-4 0H4", class: "sign" }));
      shape.append(knob);
    }
    this.shapes.set(node, shape);
    if (state.sought >= 0 && forest.columnsOf(node).includes(state.sought)) shape.classList.add("found");
    return shape;
  }

  /** The colour of a leaf: of its class, or between the lowest and the highest value of the tree. */
  private leafPaint(node: number): string {
    const { forest } = this;
    if (forest.isLinear(node)) return "";
    const answer = forest.leafAnswer(node, null);
    if (forest.page.classes !== null && !forest.adds) {
      return forest.page.colours[largest(answer) % forest.page.colours.length];
    }
    const [low, high] = this.valueRange();
    const share = high > low ? (answer[0] - low) / (high - low) : 0.5;
    return `color-mix(in oklab, var(--high) ${(100 * share).toFixed(0)}%, var(--low))`;
  }

  private ranges = new Map<number, [number, number]>();

  private valueRange(): [number, number] {
    const { forest, state } = this;
    let range = this.ranges.get(state.tree);
    if (range === undefined) {
      range = [Infinity, -Infinity];
      for (let node = forest.treeStart[state.tree]; node < forest.treeStart[state.tree + 1]; node++) {
        if (forest.kind[node] !== LEAF || forest.isLinear(node)) continue;
        const value = forest.leafAnswer(node, null)[0];
        range = [Math.min(range[0], value), Math.max(range[1], value)];
      }
      this.ranges.set(state.tree, range);
    }
    return range;
  }

  private drawShares(shape: SVGGElement, shares: Float64Array, width: number): void {
    const positive = shares.map((share) => Math.max(0, share));
    const total = positive.reduce((a, b) => a + b, 0) || 1;
    const colours = this.forest.page.colours;
    let x = PAD;
    positive.forEach((share, k) => {
      const long = ((width - 2 * PAD) * share) / total;
      if (long < 0.3) return;
      shape.append(s("rect", { x: x.toFixed(2), y: BOX / 2 - 9, width: long.toFixed(2), height: 4, fill: colours[k % colours.length] }));
      x += long;
    });
  }

  /** What a node says to a screen reader, and under the mouse. */
  private spoken(place: Place): string {
    const { forest, state } = this;
    const { node } = place;
    const above = forest.parent[node];
    const way = above < 0 ? "" : `${state.full.relation(above, forest.left[above] === node)}: `;
    const rows = counted(this.countAt(node), "row");
    if (forest.kind[node] === LEAF) return `${way}leaf, ${state.full.leaf(node, node === this.leaf() ? state.row : null)}, ${rows}`;
    const hidden = place.folded ? `, ${counted(place.folded, "leaf", "leaves")} folded` : "";
    return `${way}${state.full.subject(node)}; up ${state.full.relation(node, true)}, down ${state.full.relation(node, false)}, ${rows}${hidden}`;
  }

  /** Mark the row's path, the selection and the cursor. */
  private mark(): void {
    const passed = new Set(this.forest.path(this.state.tree, this.state.row));
    for (const [node, shape] of this.shapes) {
      shape.classList.toggle("passed", passed.has(node));
      shape.classList.toggle("selected", node === this.state.selected);
      shape.setAttribute("aria-selected", String(node === this.state.selected));
      shape.setAttribute("tabindex", node === this.cursor ? "0" : "-1");
    }
    for (const [node, edge] of this.edges) edge.classList.toggle("passed", passed.has(node));
    this.world.classList.toggle("seeking", this.state.sought >= 0);
  }

  // ---------------------------------------------------------------- looking around

  private bounds(): Box {
    const all = [...this.spots.values()];
    return {
      left: 0,
      right: Math.max(...all.map((spot) => spot.x + spot.width + 2 * KNOB)),
      top: Math.min(...all.map((spot) => spot.y - BOX / 2)),
      bottom: Math.max(...all.map((spot) => spot.y + BOX / 2)),
    };
  }

  /** Show the whole tree, or, if it would be too small to read, its root and the height of the row's path. */
  fit(): void {
    const all = this.bounds();
    const root = this.spots.get(this.forest.treeStart[this.state.tree])!;
    const leaf = this.spots.get(this.leaf()) ?? root;
    this.view.fit(all, all.right > this.view.width ? root.y : (root.y + leaf.y) / 2);
  }

  /** Show everything, however small. */
  overview(): void {
    this.view.overview(this.bounds());
  }

  zoom(factor: number): void {
    this.view.zoom(factor);
  }

  private bringIn(node: number): void {
    const spot = this.spots.get(node)!;
    this.view.bringIn({ left: spot.x, right: spot.x + spot.width + 2 * KNOB, top: spot.y - BOX, bottom: spot.y + BOX });
  }

  // ---------------------------------------------------------------- hands

  private listen(): void {
    this.svg.addEventListener("click", (event) => {
      if (this.view.wasDrag) return;
      const target = event.target as Element;
      const fold = target.closest("[data-fold]");
      const shape = target.closest("[data-node]");
      if (fold !== null) this.toggle(Number(fold.getAttribute("data-fold")));
      else if (shape !== null) this.choose(Number(shape.getAttribute("data-node")));
      else if (this.state.selected >= 0) this.state.select(-1);
    });
    this.svg.addEventListener("dblclick", (event) => {
      const shape = (event.target as Element).closest("[data-node]");
      if (shape !== null && (event.target as Element).closest("[data-fold]") === null) {
        this.toggle(Number(shape.getAttribute("data-node")));
      }
    });
    this.svg.addEventListener("focusin", (event) => {
      const shape = (event.target as Element).closest("[data-node]");
      if (shape !== null) this.cursor = Number(shape.getAttribute("data-node"));
    });
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  private choose(node: number): void {
    this.cursor = node;
    this.state.select(node);
    this.shapes.get(node)?.focus({ preventScroll: true });
  }

  private toggle(node: number): void {
    const { forest, state } = this;
    if (forest.kind[node] === LEAF) return;
    const open = state.openIn(state.tree).has(node);
    this.cursor = node;
    const before = this.spots.get(node)!;
    // What the reader pointed at stays under the pointer.
    this.view.moved = true;
    state.fold(node, open);
    const after = this.spots.get(node)!;
    this.view.pan((before.x - after.x) * this.view.scale, (before.y - after.y) * this.view.scale);
    this.note.textContent = open ? "folded" : "unfolded";
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { forest, state } = this;
    const node = this.cursor;
    const split = forest.kind[node] !== LEAF;
    const open = split && state.openIn(state.tree).has(node);
    const at = this.order.indexOf(node);
    const go = (to: number | undefined): void => {
      if (to !== undefined && to >= 0) this.moveTo(to);
    };
    const actions: Record<string, () => void> = {
      ArrowDown: () => go(this.order[at + 1]),
      ArrowUp: () => go(this.order[at - 1]),
      ArrowRight: () => (!split ? undefined : open ? go(forest.left[node]) : this.toggle(node)),
      ArrowLeft: () => (open ? this.toggle(node) : go(forest.parent[node])),
      Home: () => go(this.order[0]),
      End: () => go(this.order.at(-1)),
      Enter: () => this.choose(node),
      " ": () => this.toggle(node),
      Escape: () => state.select(-1),
      "+": () => this.zoom(1.25),
      "=": () => this.zoom(1.25),
      "-": () => this.zoom(0.8),
      "0": () => this.fit(),
    };
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  }

  private moveTo(node: number): void {
    this.shapes.get(this.cursor)?.setAttribute("tabindex", "-1");
    this.cursor = node;
    const shape = this.shapes.get(node);
    shape?.setAttribute("tabindex", "0");
    shape?.focus({ preventScroll: true });
    this.bringIn(node);
  }

  /** Whether a node that is drawn stands in the left half of what is seen. */
  inLeftHalf(node: number): boolean {
    const spot = this.spots.get(node);
    if (spot === undefined) return false;
    return (spot.x + spot.width / 2) * this.view.scale + this.view.x < this.view.width / 2;
  }
}
