// Small charts with axes, as SVG that follows the theme.

import { s } from "./dom";
import { number } from "./format";

export interface Axis {
  readonly low: number;
  readonly high: number;
  readonly label: string;
}

const [WIDE, HIGH] = [340, 240];
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 12, 10, 40];

export class Chart {
  readonly element: SVGSVGElement;
  private readonly body = s("g");

  constructor(
    private readonly x: Axis,
    private readonly y: Axis,
    spoken: string,
  ) {
    this.element = s("svg", { class: "chart", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": spoken });
    this.frame();
    this.element.append(this.body);
  }

  atX(value: number): number {
    return LEFT + share(value, this.x) * (WIDE - LEFT - RIGHT);
  }

  atY(value: number): number {
    return HIGH - BOTTOM - share(value, this.y) * (HIGH - TOP - BOTTOM);
  }

  private frame(): void {
    for (const value of ticks(this.x.low, this.x.high, 5)) {
      const at = this.atX(value);
      this.element.append(
        s("line", { class: "grid", x1: at, x2: at, y1: TOP, y2: HIGH - BOTTOM }),
        s("text", { class: "tick", x: at, y: HIGH - BOTTOM + 15, "text-anchor": "middle" }, short(value)),
      );
    }
    for (const value of ticks(this.y.low, this.y.high, 5)) {
      const at = this.atY(value);
      this.element.append(
        s("line", { class: "grid", x1: LEFT, x2: WIDE - RIGHT, y1: at, y2: at }),
        s("text", { class: "tick", x: LEFT - 6, y: at + 4, "text-anchor": "end" }, short(value)),
      );
    }
    const middle = (TOP + HIGH - BOTTOM) / 2;
    this.element.append(
      s("text", { class: "axis", x: (LEFT + WIDE - RIGHT) / 2, y: HIGH - 6, "text-anchor": "middle" }, this.x.label),
      s("text", { class: "axis", x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` }, this.y.label),
    );
  }

  line(points: readonly (readonly [number, number])[], className: string, colour = ""): void {
    const d = points.map(([x, y], k) => `${k ? "L" : "M"}${this.atX(x).toFixed(1)} ${this.atY(y).toFixed(1)}`).join("");
    const path = s("path", { d, class: className });
    if (colour) path.style.setProperty("stroke", colour);
    this.body.append(path);
  }

  dot(x: number, y: number, radius: number, tip: string, className = "dot", colour = ""): void {
    const dot = s("circle", { cx: this.atX(x).toFixed(1), cy: this.atY(y).toFixed(1), r: radius.toFixed(1), class: className });
    if (tip) dot.append(s("title", {}, tip));
    if (colour) dot.style.setProperty("fill", colour);
    this.body.append(dot);
  }

  block(from: number, to: number, height: number, tip: string): void {
    const [left, right] = [this.atX(from), this.atX(to)];
    const top = this.atY(height);
    const rect = s("rect", { class: "block", x: left + 0.5, y: top, width: Math.max(0.5, right - left - 1), height: HIGH - BOTTOM - top });
    rect.append(s("title", {}, tip));
    this.body.append(rect);
  }
}

function short(value: number): string {
  return number(value, 3);
}

function share(value: number, axis: Axis): number {
  return axis.high > axis.low ? (value - axis.low) / (axis.high - axis.low) : 0.5;
}

/** Round numbers in a range. */
export function ticks(low: number, high: number, about: number): number[] {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return Number.isFinite(low) ? [low] : [];
  const rough = span / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((each) => each * power >= rough) ?? 10);
  const result = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9 && result.length < 20; k++) result.push(k * step);
  return result;
}
