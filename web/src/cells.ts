// The cells of the row, each with controls to change it: type, slide, choose, or call it missing.

import { freshId, h, name } from "./dom";
import type { Feature, NumberHistogram } from "./data";
import { moment, number, parseMoment, parseNumber } from "./format";
import { THRESHOLD } from "./forest";
import type { State } from "./state";
import { button } from "./toolbar";

const FIRST = 12;
const STEPS = 1000;

interface Control {
  readonly element: HTMLElement;
  refresh(): void;
}

export class CellEditor {
  readonly element = h("div", { class: "cells" });
  private readonly controls = new Map<number, Control>();
  private readonly list = h("div", {});
  private readonly filter: HTMLInputElement;
  private readonly more: HTMLButtonElement;
  private readonly columns: number[];
  private shown = FIRST;

  constructor(private readonly state: State) {
    const { histograms, importances } = state.page;
    // What no tree looks at changes nothing.
    this.columns = [...histograms.keys()]
      .filter((column) => histograms[column] !== null)
      .sort((a, b) => importances[b] - importances[a] || a - b);
    this.filter = h("input", { type: "search", placeholder: "Filter features", "aria-label": "Filter features", input: () => this.fill() });
    this.more = button("Show more", "Show more features", () => {
      this.shown = Infinity;
      this.fill();
    }, "text");
    const unused = histograms.length - this.columns.length;
    const note = !this.columns.length
      ? "No split looks at any feature: the answer is always the same."
      : unused
        ? `${unused} of ${histograms.length} features are never looked at.`
        : "";
    this.element.append(...(this.columns.length > FIRST ? [this.filter] : []), this.list, this.more, ...(note ? [h("p", { class: "muted" }, note)] : []));
    this.fill();
    state.onChange((change) => {
      if (change === "row") for (const control of this.controls.values()) control.refresh();
    });
  }

  private fill(): void {
    const text = this.filter.value.trim().toLowerCase();
    const { features } = this.state.page.forest;
    const fitting = this.columns.filter((column) => features[column].name.toLowerCase().includes(text));
    const chosen = fitting.slice(0, text ? 60 : this.shown);
    for (const column of chosen) {
      if (!this.controls.has(column)) this.controls.set(column, makeControl(this.state, column));
    }
    this.list.replaceChildren(...chosen.map((column) => this.controls.get(column)!.element));
    this.more.hidden = chosen.length === fitting.length;
    this.more.textContent = `Show all ${fitting.length} features`;
  }
}

function makeControl(state: State, column: number): Control {
  const feature = state.page.forest.features[column];
  const id = freshId();
  const undo = button("\u21ba", `Set ${feature.name} back`, () => state.setCell(column, state.origin.cells[column]));
  const chooses = feature.words !== undefined || feature.type === "bool";
  const parts = chooses ? choice(state, column, feature, id) : numeric(state, column, feature, id);
  const element = h(
    "div",
    { class: "cell", "data-column": column },
    h("label", { for: id }, name(feature.name)),
    h("div", { class: "cell-controls" }, ...parts.elements, undo),
    ...(parts.below ?? []),
  );
  const refresh = (): void => {
    const changed = !Object.is(state.row[column], state.origin.cells[column]);
    element.classList.toggle("changed", changed);
    undo.classList.toggle("unseen", !changed);
    undo.disabled = !changed;
    undo.title = `It was ${state.full.cell(column, state.origin.cells[column])}`;
    parts.refresh();
  };
  refresh();
  return { element, refresh };
}

interface Parts {
  readonly elements: HTMLElement[];
  readonly below?: HTMLElement[];
  refresh(): void;
}

/** A list of categories, or of false and true. */
function choice(state: State, column: number, feature: Feature, id: string): Parts {
  const words = feature.words ?? ["false", "true"];
  const list = h("select", { id, change: () => state.setCell(column, list.value === "" ? NaN : Number(list.value)) });
  list.append(...words.map((word, code) => h("option", { value: code, title: word }, word === "" ? "\u201c\u201d" : word)), h("option", { value: "" }, "missing"));
  let odd: HTMLOptionElement | null = null;
  return {
    elements: [list],
    refresh() {
      const cell = state.row[column];
      odd?.remove();
      odd = null;
      const known = Number.isInteger(cell) && cell >= 0 && cell < words.length;
      if (!known && !Number.isNaN(cell)) {
        // A boolean column may hold another number, and a category column a code that stands for nothing.
        odd = h("option", { value: String(cell) }, feature.words ? `missing (${cell})` : String(cell));
        list.append(odd);
      }
      list.value = Number.isNaN(cell) ? "" : String(cell);
    },
  };
}

/** A number or a date: typed exactly, slid along the range of the rows, or missing. */
function numeric(state: State, column: number, feature: Feature, id: string): Parts {
  const date = feature.type === "datetime";
  const [low, high] = range(state, column);
  const whole = feature.type === "int" && high - low <= 1e6;
  const write = (value: number): string => (Number.isNaN(value) ? "" : date ? moment(value) : String(value));
  const set = (value: number): void => state.setCell(column, value);
  const problem = h("span", { class: "problem", role: "alert" });
  const field = h("input", {
    id,
    type: "text",
    inputmode: date ? null : "decimal",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "missing",
    input: () => {
      const value = date && !Number.isNaN(parseNumber(field.value)) ? parseMoment(field.value) : parseNumber(field.value);
      field.toggleAttribute("aria-invalid", value === null);
      problem.textContent = value === null ? (date ? "Write a date such as 2024-05-31 or 2024-05-31 12:30" : "Write a number such as 1.5, or nothing for a missing value") : "";
      if (value !== null) set(value);
    },
    blur: () => refresh(true),
  });
  const slider = h("input", {
    type: "range",
    min: whole ? Math.floor(low) : 0,
    max: whole ? Math.ceil(high) : STEPS,
    step: 1,
    "aria-label": `${feature.name}, slider`,
    input: () => set(whole ? Number(slider.value) : rounded(low, high, Number(slider.value) / STEPS, date)),
  });
  const box = h("input", {
    type: "checkbox",
    id: freshId(),
    change: () => set(box.checked ? NaN : Number.isNaN(state.origin.cells[column]) ? rounded(low, high, 0.5, date || whole) : state.origin.cells[column]),
  });
  const refresh = (force = false): void => {
    const cell = state.row[column];
    // What the reader is typing stays as it is typed.
    if (force || document.activeElement !== field) {
      field.value = write(cell);
      field.title = write(cell);
      field.removeAttribute("aria-invalid");
      problem.textContent = "";
    }
    box.checked = Number.isNaN(cell);
    slider.classList.toggle("off", Number.isNaN(cell));
    if (!Number.isNaN(cell)) {
      slider.value = String(whole ? cell : high > low ? (STEPS * (cell / 2 - low / 2)) / (high / 2 - low / 2) : 0);
    }
    slider.setAttribute("aria-valuetext", Number.isNaN(cell) ? "missing" : date ? moment(cell) : number(cell));
  };
  return {
    elements: [field, h("label", { class: "missing", for: box.id }, box, "missing")],
    below: [slider, problem],
    refresh,
  };
}

/** The range of a slider: of the rows, and of the thresholds among them. */
function range(state: State, column: number): [number, number] {
  const { forest } = state;
  let [low, high] = (state.page.histograms[column] as NumberHistogram).range ?? [Infinity, -Infinity];
  const seen = low <= high;
  for (let node = 0; node < forest.nodes; node++) {
    const cut = forest.threshold[node];
    if (seen || forest.kind[node] !== THRESHOLD || forest.feature[node] !== column || !Number.isFinite(cut)) continue;
    [low, high] = [Math.min(low, cut - 1), Math.max(high, cut + 1)];
  }
  return low <= high ? [low, high] : [0, 1];
}

/** A number at a share of a range, without digits finer than the slider's steps; the ends are exact. */
function rounded(low: number, high: number, share: number, whole: boolean): number {
  if (share <= 0) return low;
  if (share >= 1) return high;
  const value = low * (1 - share) + high * share;
  const decimals = whole ? 0 : Math.ceil(-Math.log10((high - low) / STEPS));
  if (!Number.isFinite(decimals) || Math.abs(value) >= 1e21 || decimals > 100) return value;
  if (decimals >= 0) return Number(value.toFixed(decimals));
  const unit = 10 ** -decimals;
  return Math.round(value / unit) * unit;
}
