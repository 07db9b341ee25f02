// Which colour stands for what.

import { h } from "./dom";
import { count } from "./format";
import type { State } from "./state";

const MOST = 10;

/** A swatch and a name for each class. */
export function classKeys(state: State): HTMLElement[] {
  const { classes, colours } = state.page.forest;
  if (classes === null) return [];
  const keys = classes.slice(0, MOST).map((label, k) => {
    const swatch = h("span", { class: "swatch" });
    swatch.style.setProperty("background", colours[k % colours.length]);
    return h("span", { class: "key" }, swatch, h("bdi", { class: "name", title: label }, label));
  });
  if (classes.length > MOST) keys.push(h("span", { class: "key" }, `and ${count(classes.length - MOST)} more`));
  return keys;
}

function valueKeys(): HTMLElement[] {
  return [h("span", { class: "key" }, h("span", { class: "swatch ramp" }), "leaf values, low to high")];
}

/** The line below the picture. */
export function legend(state: State): HTMLElement {
  return h(
    "footer",
    { class: "legend muted" },
    ...(state.forest.adds || state.page.forest.classes === null ? valueKeys() : classKeys(state)),
    h("span", { class: "key" }, "\u2205 also takes missing values"),
    h("span", { class: "key keys" }, "Arrow keys walk the tree, space folds, enter opens, 0 fits"),
  );
}
