// Puts the page together, and lets other programs (the tests) ask the forest what the reader sees.

import type { Page } from "./data";
import { freshId, h } from "./dom";
import { FeaturesView } from "./features";
import { counted } from "./format";
import { legend } from "./legend";
import { NodeCard } from "./nodecard";
import { PerformanceView } from "./performance";
import { RowPanel } from "./rowpanel";
import { State } from "./state";
import { Toolbar } from "./toolbar";
import { TreeView } from "./treeview";

const FORMAT = 1;

interface Explorer {
  readonly ready: Promise<void>;
  /** What the forest says about rows in raw coding: leaves counted from each tree's root, outputs, and the rest. */
  evaluate(rows: readonly (readonly number[])[]): object[];
  /** The row that is shown now, and what is said about it. */
  current(): object;
}

declare global {
  interface Window {
    hardwood: Explorer;
  }
}

let state: State;

function plain(row: Float64Array): object {
  const { forest } = state;
  const answer = forest.answer(row);
  return {
    leaves: [...answer.leaves].map((node, tree) => node - forest.treeStart[tree]),
    outputs: [...answer.outputs],
    prediction: [...answer.prediction],
    weights: [...answer.weights],
    treeOutputs: [...answer.treeOutputs],
    chosen: answer.chosen,
  };
}

async function start(): Promise<void> {
  const root = document.getElementById("app")!;
  try {
    const page = JSON.parse(document.getElementById("document")!.textContent!) as Page;
    if (page.format !== FORMAT) throw new Error(`the data has format ${page.format}, the program reads ${FORMAT}`);
    state = await State.read(page);
    build(root, state);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    root.replaceChildren(h("p", { class: "lead", role: "alert" }, `This page cannot be shown: ${reason}. It needs a browser of 2024 or later.`));
    throw error;
  }
}

function build(root: HTMLElement, state: State): void {
  const { page, forest } = state;
  const view = new TreeView(state);
  const toolbar = new Toolbar(state, view);
  const tabs = new Tabs();
  const openNode = (node: number): void => {
    tabs.open(0);
    state.goTo(node);
  };
  const panel = new RowPanel(
    state,
    (tree) => {
      tabs.open(0);
      state.showTree(tree);
    },
    openNode,
  );
  const features = new FeaturesView(state, (column) => {
    tabs.open(0);
    toolbar.seek(column);
  });
  tabs.add(forest.trees === 1 ? "Tree" : "Trees", h("div", { class: "tree-page" }, toolbar.element, view.element, new NodeCard(state, (node) => view.inLeftHalf(node)).element, legend(state)));
  tabs.add("Features", features.element);
  tabs.add("Performance", new PerformanceView(state).element);
  root.replaceChildren(
    h(
      "header",
      { class: "top" },
      h("div", { class: "title" }, h("h1", {}, h("bdi", {}, page.title)), h("p", { class: "muted" }, subtitle(state))),
      tabs.list,
      themeButton(),
    ),
    h("main", {}, h("div", { class: "views" }, ...tabs.panels), panel.element),
  );
  tabs.open(0);
  view.fit();
}

function subtitle(state: State): string {
  const { page, forest } = state;
  let leaves = 0;
  for (const each of forest.leafOf) if (each >= 0) leaves++;
  const kind = page.forest.classes === null ? "regression" : counted(page.forest.classes.length, "class", "classes");
  return `${counted(forest.trees, "tree")}, ${counted(leaves, "leaf", "leaves")}, ${kind} \u00b7 seen on ${counted(page.n_rows, "row")}`;
}

class Tabs {
  readonly list = h("div", { class: "tabs", role: "tablist", "aria-label": "Views" });
  readonly panels: HTMLElement[] = [];
  private readonly buttons: HTMLButtonElement[] = [];

  constructor() {
    this.list.addEventListener("keydown", (event) => {
      const at = this.buttons.indexOf(document.activeElement as HTMLButtonElement);
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (at < 0 || step === undefined) return;
      event.preventDefault();
      const next = (at + step + this.buttons.length) % this.buttons.length;
      this.open(next);
      this.buttons[next].focus();
    });
  }

  add(text: string, content: HTMLElement): void {
    const [tab, panel] = [freshId(), freshId()];
    const number = this.buttons.length;
    this.buttons.push(h("button", { type: "button", role: "tab", id: tab, "aria-controls": panel, click: () => this.open(number) }, text));
    this.panels.push(h("div", { class: "view", role: "tabpanel", id: panel, "aria-labelledby": tab }, content));
    this.list.append(this.buttons[number]);
  }

  open(number: number): void {
    this.buttons.forEach((button, k) => {
      button.setAttribute("aria-selected", String(k === number));
      button.tabIndex = k === number ? 0 : -1;
      this.panels[k].hidden = k !== number;
    });
    document.documentElement.dataset.view = String(number);
  }
}

/** Turns from the system's theme to the other one, and back. */
function themeButton(): HTMLElement {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const dark = (): boolean => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const label = (): void => {
    button.textContent = dark() ? "\u2600" : "\u263e";
    button.title = dark() ? "Light theme" : "Dark theme";
    button.setAttribute("aria-label", button.title);
  };
  const button = h("button", {
    type: "button",
    class: "icon theme",
    click: () => {
      root.dataset.theme = dark() ? "light" : "dark";
      label();
    },
  });
  system.addEventListener("change", label);
  label();
  return button;
}

window.hardwood = {
  ready: start(),
  evaluate: (rows) => rows.map((row) => plain(Float64Array.from(row))),
  current: () => ({ row: [...state.row], tree: state.tree, selected: state.selected, place: state.origin.place, ...plain(state.row) }),
};
