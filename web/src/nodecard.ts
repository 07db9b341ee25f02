// The card about the selected node: its rule, how a row gets there, who passes, and what it says.

import { bar, h, name } from "./dom";
import { LEAF, OBLIQUE } from "./forest";
import { count, counted, number, percent, signed } from "./format";
import type { State } from "./state";

const MOST_TERMS = 40;

export class NodeCard {
  readonly element = h("aside", { class: "card node-card", "aria-label": "The selected node", hidden: true });

  /** `leftHalf` says whether a node stands in the left half of the picture: the card then goes to the right. */
  constructor(
    private readonly state: State,
    private readonly leftHalf: (node: number) => boolean,
  ) {
    state.onChange(() => this.show());
  }

  private show(): void {
    const { state } = this;
    const node = state.selected;
    this.element.hidden = node < 0;
    if (node < 0) return;
    this.element.classList.toggle("right", this.leftHalf(node));
    const leaf = state.forest.kind[node] === LEAF;
    const close = h("button", { class: "icon", "aria-label": "Close", click: () => state.select(-1) }, "\u00d7");
    this.element.replaceChildren(
      h("header", {}, h("h2", {}, leaf ? "Leaf" : "Split"), h("span", { class: "muted" }, this.passing()), close),
      ...(leaf ? this.leafParts() : this.splitParts()),
      ...this.truthParts(),
      ...this.wayParts(),
    );
  }

  private passing(): string {
    const { state } = this;
    const rows = state.rowsAt[state.selected];
    const all = state.page.n_rows;
    return `${count(rows)} of ${counted(all, "row")} (${percent(all ? rows / all : 0)})`;
  }

  private splitParts(): HTMLElement[] {
    const { forest, selected: node, row, full } = this.state;
    const left = forest.goesLeft(node, row);
    const missing = (way: boolean): string => ((forest.missingLeft[node] === 1) === way ? " or missing" : "");
    const side = (way: boolean): HTMLElement =>
      h(
        "li",
        { class: left === way ? "taken" : "" },
        h("b", {}, way ? "\u2197 up" : "\u2198 down"),
        ` if it ${sentence(full.relation(node, way))}${missing(way)}`,
        left === way && h("span", { class: "muted" }, ` \u2190 the row: ${full.seen(node, row)}`),
      );
    const oblique = forest.kind[node] === OBLIQUE;
    const subject = oblique ? h("p", {}, "The weighted sum") : h("p", { class: "subject" }, name(forest.page.features[forest.feature[node]].name, "whole"));
    return [subject, ...(oblique ? [this.weights(node)] : []), h("ul", { class: "ways" }, side(true), side(false))];
  }

  /** The weights of an oblique split; the longer a bar, the more the column moves the sum. */
  private weights(node: number): HTMLElement {
    const { forest, row, full } = this.state;
    const terms = forest.termsBySize(node);
    const largest = terms[0]?.size || 1;
    const rows = terms.slice(0, MOST_TERMS).map(({ column, weight, size }) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, name(forest.page.features[column].name)),
        h("td", { class: "number" }, signed(weight)),
        h("td", { class: "bar-cell" }, bar(size / largest)),
        h("td", { class: "number muted" }, Number.isNaN(row[column]) ? "missing" : `\u00d7 ${full.cell(column, row[column])}`),
      ),
    );
    const more = terms.length - MOST_TERMS;
    return h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, ...rows)), more > 0 && h("p", { class: "muted" }, `and ${more} smaller ones`));
  }

  private leafParts(): HTMLElement[] {
    const { forest, selected: node, row, full } = this.state;
    const linear = forest.isLinear(node);
    const answer = forest.leafAnswer(node, row);
    const parts: HTMLElement[] = [];
    if (forest.page.classes !== null && !forest.adds) {
      parts.push(shareTable(this.state, answer));
    } else {
      const words = [...answer].map((value, k) => {
        const label = full.outcome(k);
        return `${label ? `${label} ` : ""}${forest.adds ? signed(value, 6) : number(value)}`;
      });
      parts.push(h("p", { class: "says" }, `${forest.adds ? "Adds" : "Says"} ${words.join(", ")}`, linear && h("span", { class: "muted" }, " for this row")));
    }
    if (linear) parts.push(this.slopes(node));
    if (forest.leafWeights !== null && forest.trees > 1) {
      parts.push(h("p", { class: "muted" }, `Leaf weight ${number(forest.leafWeights[forest.leafOf[node]])}`));
    }
    return parts;
  }

  /** The constant and the coefficients of a linear leaf. */
  private slopes(node: number): HTMLElement {
    const { forest, row, full } = this.state;
    const leaf = forest.leafOf[node];
    const rows = [];
    for (let k = 0; k < forest.outputs; k++) {
      const label = full.outcome(k);
      rows.push(h("tr", {}, h("th", { scope: "row" }, `${label ? `${label}: ` : ""}constant`), h("td", { class: "number" }, number(forest.leafValues[leaf * forest.outputs + k])), h("td", {})));
      for (let column = 0; column < forest.columns; column++) {
        const slope = forest.leafCoef![(leaf * forest.columns + column) * forest.outputs + k];
        if (slope === 0) continue;
        const cell = Number.isNaN(row[column]) ? "missing: 0" : `\u00d7 ${full.cell(column, row[column])}`;
        rows.push(h("tr", {}, h("th", { scope: "row" }, name(forest.page.features[column].name)), h("td", { class: "number" }, signed(slope)), h("td", { class: "number muted" }, cell)));
      }
    }
    return h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, ...rows)));
  }

  /** How the true answers of the rows here are spread. */
  private truthParts(): HTMLElement[] {
    const { state } = this;
    const rows = state.rowsAt[state.selected];
    if (!rows) return [];
    if (state.meansAt !== null) {
      return [h("p", { class: "muted" }, `Mean truth of the rows here: ${number(state.meansAt[state.selected])}`)];
    }
    if (state.classesAt === null) return [];
    const size = state.page.forest.classes!.length;
    const counts = state.classesAt.subarray(state.selected * size, (state.selected + 1) * size);
    return [h("h3", {}, "True classes of the rows here"), shareTable(state, Float64Array.from(counts, (each) => each / rows), counts)];
  }

  /** The conditions from the root to the node. */
  private wayParts(): HTMLElement[] {
    const { state } = this;
    const { forest } = state;
    const steps: HTMLElement[] = [];
    for (let node = state.selected; forest.parent[node] >= 0; node = forest.parent[node]) {
      const above = forest.parent[node];
      steps.unshift(h("li", {}, state.full.condition(above, forest.left[above] === node)));
    }
    return steps.length ? [h("h3", {}, "Rows come here if"), h("ol", { class: "way" }, ...steps)] : [];
  }
}

/** "< 5" reads well after "if it is". */
function sentence(relation: string): string {
  return /^(is|not in|in)\b/.test(relation) ? relation.replace(/^(not )?in/, "is $1in") : `is ${relation}`;
}

/** Classes with their shares as bars, the largest first. */
export function shareTable(state: State, shares: Float64Array, counts: Int32Array | null = null): HTMLElement {
  const { classes, colours } = state.page.forest;
  const order = [...shares.keys()].sort((a, b) => shares[b] - shares[a]).slice(0, 6);
  const rows = order.map((k) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, name(classes![k])),
      h("td", { class: "bar-cell" }, bar(shares[k], colours[k % colours.length])),
      h("td", { class: "number" }, percent(shares[k])),
      counts && h("td", { class: "number muted" }, count(counts[k])),
    ),
  );
  return h("table", { class: "shares" }, h("tbody", {}, ...rows));
}
