// The panel about one row: pick it, see what the forest says and why, and change its cells.

import { CellEditor } from "./cells";
import { bar, h, name, styled } from "./dom";
import { LEAF } from "./forest";
import { count, counted, number, percent, signed } from "./format";
import type { State } from "./state";
import { button } from "./toolbar";
import { largest } from "./words";

const FEW = 8; // trees, steps or classes before "show all"
const QUIET = 600; // milliseconds without a change before a screen reader is told

export class RowPanel {
  readonly element = h("section", { class: "panel", "aria-label": "One row" });
  private readonly picker = h("select", { "aria-label": "Row", title: "Rows are counted from 0, as they were given", change: () => this.state.pick(Number(this.picker.value)) });
  private readonly order = h("select", { "aria-label": "Which rows", change: () => this.list() });
  private readonly says = h("div", { class: "says-box" });
  private readonly spoken = h("p", { class: "sr", role: "status" });
  private readonly why = h("div", { class: "why" });
  private readonly reset: HTMLButtonElement;
  private allTrees = false;
  private timer = 0;

  constructor(
    private readonly state: State,
    private readonly openTree: (tree: number) => void,
    private readonly openNode: (node: number) => void,
  ) {
    this.reset = button("Undo changes", "Back to the row as it was picked", () => state.setRow(state.origin.cells), "text");
    const { sample } = state.page;
    const choices: [string, string][] = [["all", "All rows"]];
    if (sample.index.length && sample.truth !== null) {
      if (state.page.forest.classes !== null) choices.push(["wrong", "Wrongly predicted"], ["sure", "Wrong and surest"]);
      else choices.push(["worst", "Largest errors first"]);
    }
    this.order.append(...choices.map(([value, text]) => h("option", { value }, text)));
    const [previous, next] = [button("\u2039", "The row before", () => this.turn(-1)), button("\u203a", "The next row", () => this.turn(1))];
    this.element.append(
      h(
        "div",
        { class: "sticky" },
        h("div", { class: "picking" }, previous, this.picker, next, choices.length > 1 && this.order),
        this.says,
        this.spoken,
      ),
      h("div", { class: "part-head" }, h("h2", {}, "What if"), this.reset),
      new CellEditor(state).element,
      h("h2", {}, state.forest.trees === 1 ? "Its path" : "What each tree says"),
      this.why,
    );
    this.list();
    this.show();
    state.onChange((change) => {
      if (change === "selection") return;
      if (change === "row") this.show();
      else this.showWhy();
    });
  }

  // ---------------------------------------------------------------- picking

  /** How wrong the forest is about each row of the page. */
  private errors(): { place: number; wrong: boolean; size: number }[] {
    const { state } = this;
    return state.page.sample.index.map((_, place) => {
      const truth = state.truthOf(place);
      const answer = state.forest.answer(state.sampleRow(place));
      if (truth === null) return { place, wrong: false, size: 0 };
      if (answer.chosen >= 0) return { place, wrong: answer.chosen !== truth[0], size: answer.prediction[answer.chosen] };
      const size = truth.reduce((sum, value, k) => sum + Math.abs(value - answer.prediction[k]), 0);
      return { place, wrong: true, size };
    });
  }

  private list(): void {
    const { state } = this;
    const how = this.order.value;
    let rows = state.page.sample.index.map((_, place) => place);
    if (how !== "all") {
      const errors = this.errors().filter((each) => each.wrong);
      if (how !== "wrong") errors.sort((a, b) => b.size - a.size);
      rows = errors.map((each) => each.place);
    }
    const options = rows.map((place) => h("option", { value: place }, this.rowName(place)));
    this.picker.replaceChildren(h("option", { value: -1 }, "A typical row"), ...options);
    if (how !== "all" && rows.length) state.pick(rows[0]);
    this.picker.value = String(state.origin.place);
  }

  private rowName(place: number): string {
    const { state } = this;
    const truth = state.truthOf(place);
    const known = truth === null ? "" : `, truth ${state.page.forest.classes !== null ? state.short.className(truth[0]) : [...truth].map((each) => number(each, 4)).join(", ")}`;
    return `Row ${count(state.page.sample.index[place])}${known}`;
  }

  private turn(by: number): void {
    const options = [...this.picker.options].map((option) => Number(option.value));
    const at = options.indexOf(this.state.origin.place);
    this.state.pick(options[(at + by + options.length) % options.length]);
  }

  // ---------------------------------------------------------------- what the forest says

  private show(): void {
    this.picker.value = String(this.state.origin.place);
    const changed = this.state.changed().length;
    this.reset.hidden = changed === 0;
    this.says.replaceChildren(...(this.state.page.forest.classes === null ? this.numbers() : this.classes()), ...this.verdict(changed));
    this.showWhy();
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      const text = this.state.page.forest.classes === null ? [...this.state.answer.prediction].map((each) => number(each)).join(", ") : this.headline();
      this.spoken.textContent = `Prediction: ${text}`;
    }, QUIET);
  }

  private headline(): string {
    const { answer, full } = this.state;
    return `${full.className(answer.chosen)} ${percent(answer.prediction[answer.chosen])}`;
  }

  private classes(): HTMLElement[] {
    const { answer, origin, page } = this.state;
    const { classes, colours } = page.forest;
    const order = [...answer.prediction.keys()];
    if (order.length > FEW) order.sort((a, b) => answer.prediction[b] - answer.prediction[a]);
    const rows = order.slice(0, FEW).map((k) => {
      const strip = bar(answer.prediction[k], colours[k % colours.length]);
      if (!Object.is(answer.prediction[k], origin.answer.prediction[k])) {
        const mark = styled(h("span", { class: "bar-mark", title: `was ${percent(origin.answer.prediction[k])}` }), { left: `${100 * origin.answer.prediction[k]}%` });
        strip.append(mark);
      }
      return h("div", { class: k === answer.chosen ? "share chosen" : "share" }, name(classes![k]), strip, h("span", { class: "number" }, percent(answer.prediction[k])));
    });
    const more = order.length > FEW ? [h("p", { class: "muted" }, `and ${counted(order.length - FEW, "less probable class", "less probable classes")}`)] : [];
    return [...rows, ...more];
  }

  private numbers(): HTMLElement[] {
    const { answer, origin, full } = this.state;
    return [...answer.prediction].map((value, k) => {
      const before = origin.answer.prediction[k];
      const moved = Object.is(value, before) ? null : h("span", { class: "muted" }, ` ${signed(value - before)} from ${number(before, 5)}`);
      const label = full.outcome(k);
      return h("div", { class: "value" }, label && h("span", { class: "muted" }, label), h("b", {}, number(value)), moved);
    });
  }

  /** Whether the forest is right, as long as the row is the one that was picked. */
  private verdict(changed: number): HTMLElement[] {
    const { state } = this;
    const truth = state.truthOf(state.origin.place);
    const parts: (Node | string)[] = [];
    if (changed) parts.push(`${counted(changed, "cell")} changed. `);
    if (truth !== null && state.page.forest.classes !== null) {
      const right = truth[0] === state.origin.answer.chosen;
      parts.push(changed ? "The row as picked was truly " : "Truth: ", h("bdi", {}, state.medium.className(truth[0])), changed ? "." : right ? ", as predicted." : ", not as predicted.");
    } else if (truth !== null) {
      const values = [...truth].map((value, k) => `${number(value)}${far(changed > 0, state.origin.answer.prediction[k] - value)}`);
      parts.push(`Truth${changed ? " of the row as picked" : ""}: ${values.join(". ")}.`);
    }
    return parts.length ? [h("p", { class: "verdict muted" }, ...parts)] : [];
  }

  // ---------------------------------------------------------------- why

  private showWhy(): void {
    if (this.state.forest.trees === 1) this.why.replaceChildren(this.path(0));
    else this.why.replaceChildren(...this.trees());
  }

  private path(tree: number): HTMLElement {
    const { forest, row, medium } = this.state;
    const passed = forest.path(tree, row);
    const steps = passed.map((node, k) => {
      if (forest.kind[node] === LEAF) {
        return h("li", {}, h("button", { type: "button", class: "step", click: () => this.openNode(node) }, h("b", {}, `\u2192 ${medium.leaf(node, row)}`)));
      }
      const left = forest.left[node] === passed[k + 1];
      return h(
        "li",
        {},
        h(
          "button",
          { type: "button", class: "step", click: () => this.openNode(node) },
          h("span", {}, medium.subject(node), " ", medium.relation(node, left)),
          h("span", { class: "muted" }, medium.seen(node, row)),
        ),
      );
    });
    return h("ol", { class: "path" }, ...steps);
  }

  /** Trees with their shares of the prediction, or with what they add, the largest first. */
  private trees(): HTMLElement[] {
    const { state } = this;
    const { forest, answer } = state;
    const size = state.treeSizes();
    const order = state.leadingTrees();
    const shares = forest.page.combine === "softmax";
    const top = size[order[0]] || 1;
    const shown = this.allTrees ? order : order.slice(0, FEW);
    const rows = shown.map((tree) => {
      const said = answer.treeOutputs.subarray(tree * forest.outputs, (tree + 1) * forest.outputs);
      const alone = forest.alone(said.slice());
      const colour = forest.page.classes !== null && !forest.adds ? forest.page.colours[largest(alone) % forest.page.colours.length] : "";
      return h(
        "li",
        {},
        h(
          "button",
          { type: "button", class: tree === state.tree ? "tree-row current" : "tree-row", "aria-current": tree === state.tree ? "true" : null, click: () => this.openTree(tree) },
          h("span", { class: "tree-name" }, `Tree ${tree}`),
          bar(size[tree] / top, colour),
          h("span", { class: "number" }, shares ? finePercent(size[tree]) : ""),
          h("span", { class: "tree-says" }, state.short.headline(alone)),
        ),
      );
    });
    const parts: HTMLElement[] = [h("p", { class: "muted" }, this.summary(order, size)), h("ol", { class: "trees" }, ...rows)];
    if (order.length > FEW) {
      const text = this.allTrees ? `Show the first ${FEW}` : `Show all ${count(order.length)} trees`;
      parts.push(button(text, text, () => { this.allTrees = !this.allTrees; this.showWhy(); }, "text"));
    }
    parts.push(h("h3", {}, `The path in tree ${state.tree}`), this.path(state.tree));
    return parts;
  }

  private summary(order: readonly number[], size: Float64Array): string {
    const { forest } = this.state;
    if (forest.page.combine === "mean") return "The answer is the mean over all trees; those that say most come first.";
    if (forest.page.combine === "sum") return "The answer is the sum over all trees; those that add most come first.";
    let sum = 0;
    let carrying = 0;
    while (carrying < order.length && sum < 0.5) sum += size[order[carrying++]];
    return `${counted(carrying, "tree")} of ${count(order.length)} ${carrying === 1 ? "carries" : "carry"} half of this prediction. A tree's share is the softmax of the weight of the leaf that the row reaches.`;
  }
}

function far(past: boolean, error: number): string {
  if (error === 0) return ", as predicted";
  return `; the prediction ${past ? "was" : "is"} ${number(Math.abs(error), 4)} too ${error > 0 ? "high" : "low"}`;
}

/** Shares of many trees are small, so they get one more digit. */
function finePercent(share: number): string {
  return share < 0.1 && share >= 0.0001 ? `${(100 * share).toFixed(2)}%` : percent(share);
}
