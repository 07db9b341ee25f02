// A forest's splits and leaves in a reader's words: column names, raw units, category and class labels.

import { CATEGORIES, LEAF, OBLIQUE, THRESHOLD, type Forest } from "./forest";
import { cut, distinct, isolated, moment, number, percent, signed } from "./format";

/** Up to this many characters a name, numbers are short too. */
const BRIEF = 24;
/** Characters of a name among others. */
const AMONG = 14;

export class Words {
  private readonly thresholds = new Map<string, Map<number, string>>();

  /** `limit` is the most characters of a name, and makes lists short as well; Infinity says everything. */
  constructor(
    private readonly forest: Forest,
    private readonly limit: number,
  ) {}

  private get short(): boolean {
    return this.limit !== Infinity;
  }

  private get digits(): number {
    return this.limit <= BRIEF ? 4 : 6;
  }

  private shown(text: string, limit = this.limit): string {
    return isolated(text === "" ? '""' : cut(text, limit));
  }

  column(column: number): string {
    return this.shown(this.forest.page.features[column].name);
  }

  /** What a split looks at: a column, or a weighted sum of columns. */
  subject(node: number): string {
    if (this.forest.kind[node] !== OBLIQUE) return this.column(this.forest.feature[node]);
    return this.weightedSum(node);
  }

  private weightedSum(node: number): string {
    const given = this.forest.terms(node);
    const terms = this.short && given.length > 2 ? this.forest.termsBySize(node).slice(0, 2) : given;
    const parts = terms.map(({ column, weight }, k) => {
      const sign = weight < 0 ? "\u2212" : k ? "+" : "";
      return `${sign}${k ? " " : ""}${number(Math.abs(weight), this.digits - 1)}\u00b7${this.column(column)}`;
    });
    return parts.join(" ") + (terms.length < given.length ? ` + ${given.length - terms.length} more` : "");
  }

  /** Which values of the subject go left, or right; missing values aside. */
  relation(node: number, left: boolean): string {
    const { forest } = this;
    const column = forest.feature[node];
    const feature = column < 0 ? null : forest.page.features[column];
    if (forest.kind[node] === CATEGORIES) return this.set(feature!.words!, new Set(forest.codes(node)), left);
    const threshold = forest.threshold[node];
    if (feature?.words && Number.isFinite(threshold)) {
      return this.set(feature.words, new Set([...feature.words.keys()].filter((code) => code < threshold)), left);
    }
    if (feature?.type === "bool" && threshold > 0 && threshold <= 1) return left ? "is false" : "is true";
    if (feature?.type === "int" && Math.abs(threshold) < 2 ** 53) {
      const first = Math.ceil(threshold);
      return left ? `\u2264 ${number(first - 1, 16)}` : `\u2265 ${number(first, 16)}`;
    }
    return `${left ? "<" : "\u2265"} ${this.threshold(node)}`;
  }

  threshold(node: number): string {
    const { forest } = this;
    const value = forest.threshold[node];
    const column = forest.feature[node];
    if (column >= 0 && forest.page.features[column].type === "datetime") return moment(value);
    const tree = forest.treeOf[node];
    const key = `${tree} ${column}`;
    let written = this.thresholds.get(key);
    if (written === undefined) {
      const values = [];
      for (let other = forest.treeStart[tree]; other < forest.treeStart[tree + 1]; other++) {
        const kind = forest.kind[other];
        if ((kind === THRESHOLD || kind === OBLIQUE) && forest.feature[other] === column) {
          values.push(forest.threshold[other]);
        }
      }
      written = distinct(values, this.digits);
      this.thresholds.set(key, written);
    }
    return written.get(value)!;
  }

  private set(words: readonly string[], left: ReadonlySet<number>, goesLeft: boolean): string {
    let inside = [...words.keys()].filter((code) => left.has(code) === goesLeft);
    const outside = words.length - inside.length;
    let not = "";
    if (outside > 0 && outside < inside.length && inside.length > 2) {
      inside = [...words.keys()].filter((code) => left.has(code) !== goesLeft);
      not = "not ";
    }
    if (inside.length === 0) return "is none of them";
    const limit = this.short && inside.length > 1 ? Math.min(AMONG, this.limit) : this.limit;
    const limited = inside.map((code) => this.shown(words[code], limit));
    if (limited.length === 1) return `is ${not}${limited[0]}`;
    const listed = this.short && limited.length > 3 ? [...limited.slice(0, 2), `${limited.length - 2} more`] : limited;
    return `${not}in {${listed.join(", ")}}`;
  }

  /** In full what sends a row this way. */
  condition(node: number, left: boolean): string {
    const missing = (this.forest.missingLeft[node] === 1) === left ? " or missing" : "";
    return `${this.subject(node)} ${this.relation(node, left)}${missing}`;
  }

  /** What a row has where a split looks. */
  seen(node: number, row: Float64Array): string {
    const { forest } = this;
    if (forest.misses(node, row)) return "missing";
    if (forest.kind[node] === OBLIQUE) return `= ${number(forest.weighedSum(node, row))}`;
    return this.cell(forest.feature[node], row[forest.feature[node]]);
  }

  /** A cell of a column. */
  cell(column: number, value: number): string {
    const feature = this.forest.page.features[column];
    if (Number.isNaN(value)) return "missing";
    if (feature.words) return this.forest.knows(column, value) ? this.shown(feature.words[value]) : "missing";
    if (feature.type === "bool" && (value === 0 || value === 1)) return value ? "true" : "false";
    return feature.type === "datetime" ? moment(value) : number(value, this.digits + 2);
  }

  /** The name of an output: a class where each output stands for one, else the output's own name. */
  outcome(output: number): string {
    const { classes, outputs, n_outputs } = this.forest.page;
    if (classes !== null && classes.length === n_outputs) return this.shown(classes[output]);
    if (outputs !== null) return this.shown(outputs[output]);
    return n_outputs === 1 ? "" : `y[${output}]`;
  }

  className(index: number): string {
    return this.shown(this.forest.page.classes![index]);
  }

  /** What an answer says first: the most probable class and its share, or the first number. */
  headline(answer: Float64Array): string {
    const { forest } = this;
    if (forest.page.classes !== null && !forest.adds) {
      const best = largest(answer);
      return `${this.className(best)} ${percent(answer[best])}`;
    }
    const output = largest(answer.map(Math.abs));
    const value = forest.adds ? signed(answer[output], this.digits) : number(answer[output], this.digits);
    const label = this.outcome(output);
    const rest = answer.length > 1 ? ", \u2026" : "";
    return `${label ? `${label}: ` : ""}${value}${rest}`;
  }

  /** What a leaf says, in short; a linear leaf says it for a row. */
  leaf(node: number, row: Float64Array | null): string {
    if (this.forest.kind[node] !== LEAF) return "";
    if (this.forest.isLinear(node) && row === null) return "linear";
    return this.headline(this.forest.leafAnswer(node, row));
  }
}

/** The position of the largest number, the first on a tie. */
export function largest(values: ArrayLike<number>): number {
  let best = 0;
  for (let k = 1; k < values.length; k++) if (values[k] > values[best]) best = k;
  return best;
}
