// What each feature does: its importance, how its cells are spread, and where the thresholds stand.

import type { NumberHistogram, WordsHistogram } from "./data";
import { bar, h, name, s } from "./dom";
import { CATEGORIES, OBLIQUE, THRESHOLD } from "./forest";
import { count, counted, moment, number, percent } from "./format";
import type { State } from "./state";
import { classKeys } from "./legend";
import { button } from "./toolbar";

const [WIDE, HIGH, MARKS] = [320, 88, 24];
const FIRST = 24;
const MOST_WORDS = 8;

interface Use {
  splits: number;
  passes: number;
  oblique: number;
  /** Threshold -> rows that pass a split with it. */
  readonly cuts: Map<number, number>;
  readonly sets: Map<string, number>;
}

export class FeaturesView {
  readonly element = h("div", { class: "page features" });
  private readonly grid = h("div", { class: "grid-cards" });
  private readonly uses: Use[];
  private readonly columns: number[];
  private readonly markers = new Map<number, () => void>();
  private shown = FIRST;

  constructor(
    private readonly state: State,
    private readonly find: (column: number) => void,
  ) {
    this.uses = countUses(state);
    const { importances, histograms } = state.page;
    this.columns = [...this.uses.keys()]
      .filter((column) => histograms[column] !== null)
      .sort((a, b) => importances[b] - importances[a] || this.uses[b].passes - this.uses[a].passes || a - b);
    const unused = this.uses.length - this.columns.length;
    const filter = h("input", { type: "search", placeholder: "Filter features", "aria-label": "Filter features", input: () => this.fill(filter.value) });
    this.element.append(
      h(
        "p",
        { class: "lead" },
        `${counted(this.columns.length, "feature")} used${unused ? `, ${count(unused)} never looked at` : ""}. Importance is the share of all changes of the answer that come from splits on a feature, along the paths of the rows given. `,
        "Marks under a histogram are thresholds: the taller, the more rows meet them. The line is the row that you picked.",
      ),
      ...(this.columns.length > 12 ? [filter] : []),
      this.stacked() ? h("p", { class: "legend-line muted" }, "Bars by true class: ", ...classKeys(state)) : "",
      this.grid,
    );
    this.fill("");
    state.onChange((change) => {
      if (change === "row") for (const marker of this.markers.values()) marker();
    });
  }

  /** Whether bars are divided by the true class. */
  private stacked(): boolean {
    return this.state.page.histograms.some((each) => (each?.counts[0]?.length ?? 0) > 1);
  }

  private fill(text: string): void {
    const wanted = text.trim().toLowerCase();
    const { features } = this.state.page.forest;
    const fitting = this.columns.filter((column) => features[column].name.toLowerCase().includes(wanted));
    this.markers.clear();
    const cards = fitting.slice(0, this.shown).map((column) => this.card(column));
    if (cards.length < fitting.length) {
      cards.push(button(`Show all ${fitting.length} features`, "Show all features", () => { this.shown = Infinity; this.fill(text); }, "text"));
    }
    this.grid.replaceChildren(...cards);
  }

  private card(column: number): HTMLElement {
    const { state } = this;
    const feature = state.page.forest.features[column];
    const use = this.uses[column];
    const share = state.page.importances[column];
    const largest = state.page.importances[this.columns[0]] || 1;
    const histogram = state.page.histograms[column]!;
    const splits = use.splits > 0 && use.oblique === use.splits ? `in ${counted(use.splits, "weighted sum")}, so no fixed threshold` : counted(use.splits, "split");
    const facts = [splits, `met ${number(use.passes / Math.max(1, state.page.n_rows), 3)} times per row`];
    if (use.oblique && use.oblique < use.splits) facts.push(`${count(use.oblique)} in weighted sums`);
    if (histogram.missing) facts.push(`${percent(histogram.missing / state.page.n_rows)} missing`);
    const picture = "edges" in histogram ? this.numbers(column, histogram, use) : this.words(column, histogram, use);
    return h(
      "article",
      { class: "card feature" },
      h("header", {}, h("h2", {}, name(feature.name)), button("Find", "Show its splits in the tree", () => this.find(column), "text")),
      h("div", { class: "importance" }, bar(share / largest), h("span", { class: "number" }, percent(share))),
      picture,
      h("p", { class: "muted" }, facts.join(" \u00b7 ")),
    );
  }

  // ---------------------------------------------------------------- numbers

  private numbers(column: number, histogram: NumberHistogram, use: Use): HTMLElement {
    const { edges, counts } = histogram;
    if (edges.length < 2) return h("p", { class: "muted" }, "No row has a number here.");
    const [low, high] = [edges[0], edges[edges.length - 1]];
    const at = (value: number): number => WIDE * Math.min(1, Math.max(0, (value / 2 - low / 2) / (high / 2 - low / 2)));
    const write = (value: number): string => (this.state.page.forest.features[column].type === "datetime" ? moment(Math.round(value)) : number(value, 4));
    const label = `${histogram.edges.length - 1} bars from ${write(low)} to ${write(high)}, ${counted(use.cuts.size, "threshold")}`;
    const svg = s("svg", { class: use.cuts.size > 60 ? "histogram dense" : "histogram", viewBox: `0 -4 ${WIDE} ${HIGH + MARKS + 20}`, role: "img", "aria-label": label });
    const colours = this.state.page.forest.colours;
    const tallest = Math.max(1, ...counts.map((groups) => groups.reduce((a, b) => a + b, 0)));
    counts.forEach((groups, k) => {
      const [left, right] = [at(edges[k]), at(edges[k + 1])];
      let top = HIGH;
      const gap = right - left > 3 ? 0.5 : 0;
      groups.forEach((rows, group) => {
        const tall = (HIGH * rows) / tallest;
        top -= tall;
        if (!rows) return;
        const block = s("rect", { class: "block", x: left + gap, y: top, width: Math.max(0.5, right - left - 2 * gap), height: tall });
        if (groups.length > 1) block.style.setProperty("fill", colours[group % colours.length]);
        block.append(s("title", {}, `${write(edges[k])} to ${write(edges[k + 1])}: ${count(rows)}${groups.length > 1 ? ` ${this.state.page.forest.classes![group]}` : ""}`));
        svg.append(block);
      });
    });
    svg.append(s("line", { class: "ground", x1: 0, x2: WIDE, y1: HIGH, y2: HIGH }));
    const most = Math.max(1, ...use.cuts.values());
    for (const [cut, rows] of use.cuts) {
      const x = at(cut);
      const tall = 5 + (MARKS - 7) * Math.sqrt(rows / most);
      const mark = s("line", { class: "cut", x1: x, x2: x, y1: HIGH + 1, y2: HIGH + 1 + tall });
      mark.append(s("title", {}, `threshold ${write(cut)}: ${counted(rows, "row")} met it`));
      svg.append(mark);
    }
    // Bars of whole numbers reach half a unit to either side of theirs.
    const half = edges[1] - edges[0] === 1 && low !== Math.floor(low) ? 0.5 : 0;
    svg.append(
      s("text", { class: "tick", x: half ? at(low + half) : 0, y: HIGH + MARKS + 14, "text-anchor": half ? "middle" : "start" }, write(low + half)),
      s("text", { class: "tick", x: half ? at(high - half) : WIDE, y: HIGH + MARKS + 14, "text-anchor": half ? "middle" : "end" }, write(high - half)),
    );
    const marker = s("line", { class: "here", y1: -4, y2: HIGH + 4 });
    svg.append(marker);
    const place = (): void => {
      const cell = this.state.row[column];
      marker.classList.toggle("unseen", Number.isNaN(cell));
      if (!Number.isNaN(cell)) for (const end of ["x1", "x2"]) marker.setAttribute(end, String(at(cell)));
    };
    place();
    this.markers.set(column, place);
    const outside = histogram.outside ? h("p", { class: "muted" }, `${counted(histogram.outside, "row")} beyond the ends of this range`) : null;
    return h("div", {}, svg as unknown as HTMLElement, outside);
  }

  // ---------------------------------------------------------------- categories

  private words(column: number, histogram: WordsHistogram, use: Use): HTMLElement {
    const { state } = this;
    const { classes, colours, features } = state.page.forest;
    const words = features[column].words!;
    const totals = histogram.counts.map((groups) => groups.reduce((a, b) => a + b, 0));
    const tallest = Math.max(1, ...totals);
    const rows: HTMLElement[] = histogram.codes.slice(0, MOST_WORDS).map((code, k) => {
      const strip = h("span", { class: "bar", "aria-hidden": "true" });
      histogram.counts[k].forEach((rows, group) => {
        const part = h("span", { class: "bar-fill", title: classes && histogram.counts[k].length > 1 ? `${classes[group]}: ${count(rows)}` : null });
        part.style.setProperty("width", `${(100 * rows) / tallest}%`);
        if (histogram.counts[k].length > 1) part.style.setProperty("background", colours[group % colours.length]);
        strip.append(part);
      });
      return h("tr", { "data-code": code }, h("th", { scope: "row" }, name(words[code])), h("td", { class: "bar-cell" }, strip), h("td", { class: "number" }, count(totals[k])));
    });
    const hidden = words.length - rows.length;
    if (hidden > 0) rows.push(h("tr", {}, h("th", { scope: "row", class: "muted" }, `${count(hidden)} more`), h("td", {}), h("td", {})));
    const mark = (): void => {
      for (const row of rows) row.classList.toggle("here", row.dataset.code === String(state.row[column]));
    };
    mark();
    this.markers.set(column, mark);
    const sets = [...use.sets].sort((a, b) => b[1] - a[1]).slice(0, 3);
    const told = sets.map(([text, times]) => h("li", {}, text, times > 1 && h("span", { class: "muted" }, ` \u00d7 ${times}`)));
    return h("div", {}, h("table", { class: "words" }, h("tbody", {}, ...rows)), told.length > 0 && h("ul", { class: "sets" }, ...told), use.sets.size > 3 && h("p", { class: "muted" }, `and ${counted(use.sets.size - 3, "other division")}`));
  }
}

/** Count for each column the splits that look at it, the rows that meet these, and where they cut. */
function countUses(state: State): Use[] {
  const { forest } = state;
  const uses = forest.page.features.map((): Use => ({ splits: 0, passes: 0, oblique: 0, cuts: new Map(), sets: new Map() }));
  for (let node = 0; node < forest.nodes; node++) {
    const kind = forest.kind[node];
    const rows = state.rowsAt[node];
    for (const column of forest.columnsOf(node)) {
      const use = uses[column];
      use.splits++;
      use.passes += rows;
      if (kind === OBLIQUE) {
        use.oblique++;
      } else if (kind === CATEGORIES || forest.page.features[column].words !== undefined) {
        const text = `${state.short.relation(node, true)} / ${state.short.relation(node, false)}`;
        use.sets.set(text, (use.sets.get(text) ?? 0) + 1);
      } else if (kind === THRESHOLD) {
        const cut = forest.threshold[node];
        use.cuts.set(cut, (use.cuts.get(cut) ?? 0) + rows);
      }
    }
  }
  return uses;
}
