// Above the picture: which tree, which feature to find, folding and zooming.

import { freshId, h } from "./dom";
import { count, counted } from "./format";
import type { State } from "./state";
import type { TreeView } from "./treeview";

export class Toolbar {
  readonly element = h("div", { class: "toolbar", role: "group", "aria-label": "The picture" });
  private readonly picker: HTMLSelectElement | null = null;
  private readonly search: HTMLInputElement;
  private readonly result = h("span", { class: "muted found-count", role: "status" });
  private readonly steps: HTMLButtonElement[];
  private at = -1;

  constructor(
    private readonly state: State,
    private readonly view: TreeView,
  ) {
    if (state.forest.trees > 1) this.picker = this.treePicker();
    const list = h("datalist", { id: freshId() });
    const used = new Set<number>();
    for (let node = 0; node < state.forest.nodes; node++) for (const column of state.forest.columnsOf(node)) used.add(column);
    const columns = [...used].sort((a, b) => state.page.importances[b] - state.page.importances[a] || a - b);
    for (const column of columns.slice(0, 200)) list.append(h("option", { value: state.page.forest.features[column].name }));
    this.search = h("input", {
      type: "search",
      class: "search",
      placeholder: "Find a feature",
      "aria-label": "Find a feature",
      list: list.id,
      autocomplete: "off",
      spellcheck: "false",
      input: () => this.find(columns),
      keydown: (event) => {
        if ((event as KeyboardEvent).key === "Enter") this.step((event as KeyboardEvent).shiftKey ? -1 : 1);
      },
    });
    this.steps = [button("\u2039", "The split before", () => this.step(-1)), button("\u203a", "The next split", () => this.step(1))];
    this.element.append(
      ...(this.picker ? [h("div", { class: "group" }, button("\u2039", "The tree before", () => this.turn(-1)), this.picker, button("\u203a", "The next tree", () => this.turn(1)))] : []),
      h("div", { class: "group find" }, this.search, list, ...this.steps, this.result),
      h(
        "div",
        { class: "group end" },
        button("Fold", "Fold everything but the row's path", () => this.foldToPath(), "text"),
        button("Unfold", "Unfold the whole tree", () => state.foldAll(false), "text"),
        button("\u2212", "Smaller", () => view.zoom(0.8)),
        button("+", "Larger", () => view.zoom(1.25)),
        button("Fit", "Show the tree in a legible size", () => view.fit(), "text"),
        button("Overview", "Show everything, however small", () => view.overview(), "text"),
      ),
    );
    this.label();
    state.onChange((change) => {
      if (change === "tree") {
        if (this.picker) this.picker.value = String(state.tree);
        this.label();
      }
    });
  }

  private treePicker(): HTMLSelectElement {
    const { state } = this;
    const picker = h("select", { "aria-label": "Tree", change: () => state.showTree(Number(picker.value)) });
    for (let tree = 0; tree < state.forest.trees; tree++) picker.append(h("option", { value: tree }, `Tree ${tree}`));
    picker.value = String(state.tree);
    return picker;
  }

  private turn(by: number): void {
    const { trees } = this.state.forest;
    this.state.showTree((this.state.tree + by + trees) % trees);
  }

  private foldToPath(): void {
    const { state, view } = this;
    const path = state.forest.path(state.tree, state.row);
    state.openIn(state.tree).clear();
    state.reveal(path[path.length - 1]);
    state.showTree(state.tree);
    view.fit();
  }

  /** Mark the splits on the feature whose name fits best: the same, else beginning, else containing the text. */
  private find(columns: readonly number[]): void {
    const text = this.search.value.trim().toLowerCase();
    const names = columns.map((column) => this.state.page.forest.features[column].name.toLowerCase());
    let best = -1;
    for (const fits of [(n: string) => n === text, (n: string) => n.startsWith(text), (n: string) => n.includes(text)]) {
      if (best < 0 && text) best = names.findIndex(fits);
    }
    this.at = -1;
    this.state.seek(best < 0 ? -1 : columns[best]);
  }

  /** Search from elsewhere. */
  seek(column: number): void {
    this.search.value = this.state.page.forest.features[column].name;
    this.at = -1;
    this.state.seek(column);
    this.step(1);
  }

  /** Go to the next split on the feature, through all trees, beginning in the one that is shown. */
  private step(by: number): void {
    const { state } = this;
    const found = state.found();
    if (!found.length) return;
    if (this.at < 0) {
      const here = found.findIndex((node) => state.forest.treeOf[node] >= state.tree);
      this.at = here < 0 ? 0 : here;
    } else {
      this.at = (this.at + by + found.length) % found.length;
    }
    state.goTo(found[this.at]);
  }

  private label(): void {
    const { state } = this;
    const found = state.found();
    for (const each of this.steps) each.disabled = !found.length;
    const text = this.search.value.trim();
    if (state.sought < 0) {
      this.result.textContent = text ? "no split looks at it" : "";
      return;
    }
    const here = found.filter((node) => state.forest.treeOf[node] === state.tree).length;
    const trees = new Set(found.map((node) => state.forest.treeOf[node])).size;
    this.result.textContent = state.forest.trees === 1 ? counted(here, "split") : `${count(here)} here, ${count(found.length)} in ${counted(trees, "tree")}`;
  }
}

export function button(text: string, label: string, click: () => void, className = "icon"): HTMLButtonElement {
  return h("button", { type: "button", class: className, "aria-label": className === "icon" ? label : null, title: label, click }, text);
}
