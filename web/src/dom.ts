// Small helpers that make elements. Text from data only ever becomes a text node or the value of a harmless attribute.

type Child = Node | string | null | undefined | false;
type Value = string | number | boolean | null | undefined;

interface Options {
  readonly [attribute: string]: Value | ((event: Event) => void);
}

const SVG = "http://www.w3.org/2000/svg";

function fill(element: Element, options: Options, children: readonly Child[]): void {
  for (const [name, value] of Object.entries(options)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

/** Make an HTML element. An option that is a function listens to the event of its name. */
export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  options: Options = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  fill(element, options, children);
  return element;
}

/** Make an SVG element. */
export function s<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag,
  options: Options = {},
  ...children: Child[]
): SVGElementTagNameMap[Tag] {
  const element = document.createElementNS(SVG, tag) as SVGElementTagNameMap[Tag];
  fill(element, options, children);
  return element;
}

/** Show a name from data: cut at the end of its line, apart from the direction of the text around it, whole on hover. */
export function name(text: string, className = "name"): HTMLElement {
  return h("bdi", { class: className, title: text }, text === "" ? "\u201c\u201d" : text);
}

/** Set a CSS property, which the page's policy allows where a style attribute would be refused. */
export function styled<E extends HTMLElement | SVGElement>(element: E, properties: Record<string, string>): E {
  for (const [key, value] of Object.entries(properties)) element.style.setProperty(key, value);
  return element;
}

/** A bar whose filled part is a share of its width. */
export function bar(share: number, colour = ""): HTMLElement {
  const inside = styled(h("span", { class: "bar-fill" }), { width: `${(100 * Math.min(1, Math.max(0, share || 0))).toFixed(2)}%` });
  if (colour) inside.style.setProperty("background", colour);
  return h("span", { class: "bar", "aria-hidden": "true" }, inside);
}

let ids = 0;
/** An id that no other element has. */
export function freshId(): string {
  return `hw-${++ids}`;
}

const pen = document.createElement("canvas").getContext("2d")!;
const widths = new Map<string, number>();
const FACE = 'system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif';

/** How wide a text is, in pixels. */
export function textWidth(text: string, size: number, weight: number): number {
  const key = `${weight} ${size} ${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    pen.font = `${weight} ${size}px ${FACE}`;
    width = pen.measureText(text).width;
    widths.set(key, width);
  }
  return width;
}
