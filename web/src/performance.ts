// How good the forest is on the rows given.

import { Chart } from "./charts";
import type { ClassPerformance, Calibration, ValuePerformance } from "./data";
import { freshId, h, name, styled } from "./dom";
import { count, counted, number, percent } from "./format";
import type { State } from "./state";

export class PerformanceView {
  readonly element = h("div", { class: "page" });

  constructor(private readonly state: State) {
    const given = state.page.performance;
    if (given === null) this.element.append(h("p", { class: "lead" }, "The true answers of the rows were not given, so nothing is known about how good the model is."));
    else if ("outputs" in given) this.values(given);
    else this.classes(given);
  }

  private headline(cards: [string, string, string][]): HTMLElement {
    const entries = cards.map(([value, label, note]) => h("div", { class: "card fact" }, h("b", {}, value), h("span", {}, label), note ? h("span", { class: "muted" }, note) : null));
    return h("div", { class: "facts" }, ...entries);
  }

  private classes(given: ClassPerformance): void {
    const { classes } = this.state.page.forest;
    const facts: [string, string, string][] = [
      [percent(given.accuracy), "accuracy", `the most common class alone: ${percent(given.majority)}`],
      [percent(given.balanced_accuracy), "balanced accuracy", "mean share found over the classes"],
      [given.log_loss === null ? "\u2013" : number(given.log_loss, 3), "log loss", "0 is best"],
    ];
    if (given.curves.length === 1 && given.curves[0].auc !== null) facts.push([number(given.curves[0].auc, 3), "area under ROC", "0.5 is chance, 1 is best"]);
    const charts = h("div", { class: "charts" });
    const choose = h("select", { "aria-label": "Class", change: () => draw(Number(choose.value)) });
    choose.append(...given.curves.map((curve, k) => h("option", { value: k }, classes![curve.class])));
    const draw = (k: number): void => {
      const curve = given.curves[k];
      const colour = this.state.page.forest.colours[curve.class % this.state.page.forest.colours.length];
      const parts = [];
      if (curve.roc !== null) {
        const chart = new Chart({ low: 0, high: 1, label: "share of false alarms" }, { low: 0, high: 1, label: "share found" }, `ROC curve of ${classes![curve.class]}, area ${number(curve.auc ?? NaN, 3)}`);
        chart.line([[0, 0], [1, 1]], "chance");
        chart.line(curve.roc, "curve", colour);
        parts.push(figure("ROC", [`Area ${number(curve.auc ?? NaN, 3)}. The dashed line is chance.`], chart));
      }
      parts.push(this.calibration("Calibration", curve.calibration, `predicted probability of ${clip(classes![curve.class])}`, "share that is", 0, 1, colour));
      charts.replaceChildren(...parts, ...(given.confusion ? [this.confusion(given.confusion)] : []));
    };
    draw(0);
    this.element.append(this.headline(facts), ...(given.curves.length > 1 ? [h("p", {}, "Class ", choose)] : []), charts);
  }

  private calibration(title: string, points: Calibration, across: string, up: string, low: number, high: number, colour = ""): HTMLElement {
    const chart = new Chart({ low, high, label: across }, { low, high, label: up }, `${title}: ${counted(points.length, "point")}; see the table`);
    chart.line([[low, low], [high, high]], "chance");
    const most = Math.max(1, ...points.map((point) => point[2]));
    chart.line(points.map(([x, y]) => [x, y] as const), "curve thin", colour);
    for (const [x, y, rows] of points) chart.dot(x, y, 2.5 + 5 * Math.sqrt(rows / most), `predicted ${number(x, 4)}, truly ${number(y, 4)}, ${counted(rows, "row")}`, "dot", colour);
    const table = h(
      "details",
      {},
      h("summary", {}, "As a table"),
      h("table", {}, h("thead", {}, h("tr", {}, ...["predicted", "truly", "rows"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, ...points.map(([x, y, rows]) => h("tr", {}, h("td", { class: "number" }, number(x, 4)), h("td", { class: "number" }, number(y, 4)), h("td", { class: "number" }, count(rows)))))),
    );
    return figure(title, ["On the dashed line, predictions are on average right. Dots are as large as their rows are many."], chart, table);
  }

  private confusion(counts: readonly (readonly number[])[]): HTMLElement {
    const { classes, colours } = this.state.page.forest;
    const head = h("tr", {}, h("th", { scope: "col", class: "muted" }, "true \\ predicted"), ...classes!.map((each) => h("th", { scope: "col" }, name(each))), h("th", { scope: "col" }, "found"));
    const rows = counts.map((row, i) => {
      const total = row.reduce((a, b) => a + b, 0);
      const cells = row.map((rows, j) =>
        styled(h("td", { class: "number hit" }, count(rows)), { background: `color-mix(in srgb, ${colours[j % colours.length]} ${total ? Math.round((62 * rows) / total) : 0}%, transparent)` }),
      );
      return h("tr", {}, h("th", { scope: "row" }, name(classes![i])), ...cells, h("td", { class: "number" }, total ? percent(row[i] / total) : "\u2013"));
    });
    const table = h("div", { class: "scroll" }, h("table", { class: "confusion" }, h("thead", {}, head), h("tbody", {}, ...rows)));
    return h("section", { class: "card figure" }, h("h2", {}, "Confusion"), h("p", { class: "muted" }, "Rows by what they are (down) and what they were called (across)."), table);
  }

  private values(given: ValuePerformance): void {
    const { state } = this;
    const holder = h("div", {});
    const draw = (k: number): void => {
      const scores = given.outputs[k];
      const facts: [string, string, string][] = [
        [show(scores.r2, 3), "R\u00b2", "1 is best, 0 is a constant answer"],
        [show(scores.rmse, 4), "root mean squared error", `a constant answer: ${show(scores.spread, 4)}`],
        [show(scores.mae, 4), "mean absolute error", ""],
      ];
      const values = scores.points.flat();
      const [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
      const cloud = new Chart({ low, high, label: "prediction" }, { low, high, label: "truth" }, `Truth against prediction for ${counted(scores.points.length, "row")}`);
      cloud.line([[low, low], [high, high]], "chance");
      for (const [x, y] of scores.points) cloud.dot(x, y, 2.4, `predicted ${number(x)}, truly ${number(y)}`, "dot faint");
      const { counts, edges } = scores.residuals;
      const parts = [figure("Truth and prediction", [`${counted(scores.points.length, "row")}${scores.points.length < state.page.n_rows ? `, evenly taken from ${count(state.page.n_rows)}` : ""}.`], cloud)];
      if (counts.length) {
        const chart = new Chart({ low: edges[0], high: edges[edges.length - 1], label: "truth minus prediction" }, { low: 0, high: Math.max(1, ...counts), label: "rows" }, "Histogram of residuals");
        counts.forEach((rows, bin) => chart.block(edges[bin], edges[bin + 1], rows, `${number(edges[bin], 4)} to ${number(edges[bin + 1], 4)}: ${count(rows)}`));
        chart.line([[0, 0], [0, Math.max(1, ...counts)]], "chance");
        parts.push(figure("Residuals", ["How far predictions are from the truth."], chart));
      }
      const tenths = scores.calibration;
      if (tenths.length) {
        const ends = tenths.flatMap(([x, y]) => [x, y]);
        parts.push(this.calibration("Calibration", tenths, "mean prediction, by tenths of the rows", "mean truth", Math.min(...ends), Math.max(...ends)));
      }
      holder.replaceChildren(this.headline(facts), h("div", { class: "charts" }, ...parts));
    };
    const id = freshId();
    const choose = h("select", { id, change: () => draw(Number(choose.value)) });
    choose.append(...given.outputs.map((_, k) => h("option", { value: k }, state.full.outcome(k) || "output")));
    draw(0);
    this.element.append(...(given.outputs.length > 1 ? [h("p", {}, h("label", { for: id }, "Output "), choose)] : []), holder);
  }
}

function show(value: number | null, digits: number): string {
  return value === null ? "\u2013" : number(value, digits);
}

function clip(text: string): string {
  return text.length > 24 ? `${text.slice(0, 23)}\u2026` : text;
}

function figure(title: string, notes: readonly string[], chart: Chart, more: HTMLElement | null = null): HTMLElement {
  return h("section", { class: "card figure" }, h("h2", {}, title), ...notes.map((note) => h("p", { class: "muted" }, note)), chart.element as unknown as HTMLElement, more);
}
