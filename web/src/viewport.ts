// What part of a picture is seen, and how large: dragged, pinched, and turned by the wheel.

const [SMALLEST, LARGEST] = [0.08, 3];
/** Pixels at the rim that stay free when something is brought into sight. */
export const MARGIN = 36;
const CLICK = 4; // pixels that a hand may tremble

/** A part of the picture, in its own units. */
export interface Box {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

export class Viewport {
  x = 0;
  y = 0;
  scale = 1;
  /** Whether the reader has moved or zoomed since the picture was fitted. */
  moved = false;
  private travelled = 0;

  /** `world` is moved and zoomed inside `svg`, which fills `stage`. */
  constructor(
    private readonly stage: HTMLElement,
    private readonly svg: SVGSVGElement,
    private readonly world: SVGGElement,
  ) {
    this.listen();
  }

  get width(): number {
    return this.stage.clientWidth;
  }

  get height(): number {
    return this.stage.clientHeight;
  }

  /** Whether what ends now was a drag and no click. */
  get wasDrag(): boolean {
    return this.travelled >= CLICK;
  }

  /** Show the picture from another place. */
  set(x: number, y: number, scale: number, moved: boolean): void {
    [this.x, this.y, this.scale, this.moved] = [x, y, scale, moved];
    this.world.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
  }

  pan(dx: number, dy: number): void {
    this.set(this.x + dx, this.y + dy, this.scale, true);
  }

  /** Zoom, while a point of the stage stays where it is. */
  zoom(factor: number, x = this.width / 2, y = this.height / 2): void {
    const scale = Math.min(LARGEST, Math.max(SMALLEST, this.scale * factor));
    const ratio = scale / this.scale;
    this.set(x - (x - this.x) * ratio, y - (y - this.y) * ratio, scale, true);
  }

  /** Show everything, however small. */
  overview(all: Box): void {
    const room = Math.min((this.width - 2 * MARGIN) / (all.right - all.left), (this.height - 2 * MARGIN) / (all.bottom - all.top));
    const scale = Math.max(SMALLEST, Math.min(1.15, room));
    this.set(this.across(all, scale), (this.height - (all.top + all.bottom) * scale) / 2, scale, true);
  }

  /** Show everything, or, where that would be too small to read, the left end at the height of `middle`. */
  fit(all: Box, middle: number): void {
    if (!this.width || !this.height) return;
    const room = Math.min((this.width - 2 * MARGIN) / (all.right - all.left), (this.height - 2 * MARGIN) / (all.bottom - all.top));
    const scale = Math.min(1.15, Math.max(room, this.width < 700 ? 0.8 : 0.68));
    let y = (this.height - (all.top + all.bottom) * scale) / 2;
    if ((all.bottom - all.top) * scale > this.height - 2 * MARGIN) {
      const [lowest, highest] = [MARGIN - all.top * scale, this.height - MARGIN - all.bottom * scale];
      y = Math.max(highest, Math.min(lowest, this.height / 2 - middle * scale));
    }
    this.set(this.across(all, scale), y, scale, false);
  }

  private across(all: Box, scale: number): number {
    return Math.max(MARGIN, (this.width - (all.right - all.left) * scale) / 2) - all.left * scale;
  }

  /** Move no further than it takes to show a box; its left end, if it is too wide. */
  bringIn(box: Box): void {
    const [left, right] = [box.left * this.scale + this.x, box.right * this.scale + this.x];
    const [top, bottom] = [box.top * this.scale + this.y, box.bottom * this.scale + this.y];
    let [dx, dy] = [0, 0];
    if (left < MARGIN) dx = MARGIN - left;
    else if (right > this.width - MARGIN) dx = -Math.min(right - this.width + MARGIN, left - MARGIN);
    if (top < MARGIN) dy = MARGIN - top;
    else if (bottom > this.height - MARGIN) dy = this.height - MARGIN - bottom;
    if (dx || dy) this.pan(dx, dy);
  }

  private listen(): void {
    const { svg } = this;
    const pointers = new Map<number, { x: number; y: number }>();
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      this.travelled = 0;
    });
    svg.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (before === undefined) return;
      const now = { x: event.clientX, y: event.clientY };
      this.travelled += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
      if (!this.wasDrag) return;
      // From here on it is a drag, and goes on outside the picture.
      if (!svg.hasPointerCapture(event.pointerId)) svg.setPointerCapture(event.pointerId);
      svg.classList.add("dragging");
      if (pointers.size === 1) {
        this.pan(now.x - before.x, now.y - before.y);
      } else {
        const other = [...pointers].find(([id]) => id !== event.pointerId)![1];
        const stage = svg.getBoundingClientRect();
        const spread = Math.hypot(now.x - other.x, now.y - other.y) / Math.hypot(before.x - other.x, before.y - other.y);
        this.zoom(spread || 1, (now.x + other.x) / 2 - stage.left, (now.y + other.y) / 2 - stage.top);
      }
      pointers.set(event.pointerId, now);
    });
    const release = (event: PointerEvent): void => {
      pointers.delete(event.pointerId);
      if (pointers.size) return;
      svg.classList.remove("dragging");
      // The click that ends a drag comes before this; one that a screen reader makes comes without a pointer.
      window.setTimeout(() => (this.travelled = 0));
    };
    svg.addEventListener("pointerup", release);
    svg.addEventListener("pointercancel", release);
    svg.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const stage = svg.getBoundingClientRect();
        const turned = event.deltaY * (event.deltaMode === 1 ? 16 : 1);
        // A pinch on a touchpad comes as a wheel with the control key, in smaller steps.
        this.zoom(Math.exp(-turned * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX - stage.left, event.clientY - stage.top);
      },
      { passive: false },
    );
  }
}
