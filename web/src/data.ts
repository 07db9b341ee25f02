// The page's document: what Python wrote, and how its arrays are read back.

export type Stored = "f8" | "i4" | "u1";

/** An array as the document holds it: zlib-compressed, all first bytes before all second bytes, little-endian. */
export interface Packed {
  readonly stored: Stored;
  readonly length: number;
  readonly data: string;
}

export type FeatureType = "float" | "int" | "bool" | "category" | "datetime";

export interface Feature {
  readonly name: string;
  readonly type: FeatureType;
  /** The vocabulary of a column of categories; a cell is a position in it. */
  readonly words?: readonly string[];
}

export interface NumberHistogram {
  readonly edges: readonly number[];
  readonly counts: readonly (readonly number[])[];
  readonly missing: number;
  readonly outside: number;
  readonly range: readonly [number, number] | null;
}

export interface WordsHistogram {
  readonly codes: readonly number[];
  readonly counts: readonly (readonly number[])[];
  readonly others: number;
  readonly missing: number;
}

/** Mean prediction, mean truth, rows. */
export type Calibration = readonly (readonly [number, number, number])[];

export interface ClassCurve {
  readonly class: number;
  readonly auc: number | null;
  readonly roc: readonly (readonly [number, number])[] | null;
  readonly calibration: Calibration;
}

export interface ClassPerformance {
  readonly accuracy: number;
  readonly balanced_accuracy: number;
  readonly log_loss: number | null;
  readonly majority: number;
  readonly confusion: readonly (readonly number[])[] | null;
  readonly curves: readonly ClassCurve[];
}

export interface ValuePerformance {
  readonly outputs: readonly {
    readonly r2: number | null;
    readonly rmse: number | null;
    readonly mae: number | null;
    readonly spread: number | null;
    readonly residuals: { readonly counts: readonly number[]; readonly edges: readonly number[] };
    readonly points: readonly (readonly [number, number])[];
    readonly calibration: Calibration;
  }[];
}

export interface Page {
  readonly format: number;
  readonly title: string;
  readonly n_rows: number;
  readonly forest: {
    readonly n_outputs: number;
    readonly combine: "sum" | "mean" | "softmax";
    readonly link: "identity" | "sigmoid" | "softmax" | "exp";
    readonly features: readonly Feature[];
    readonly classes: readonly string[] | null;
    readonly outputs: readonly string[] | null;
    readonly colours: readonly string[];
    readonly arrays: Readonly<Record<string, Packed>>;
  };
  readonly sample: { readonly index: readonly number[]; readonly cells: Packed; readonly truth: Packed | null };
  readonly typical: Packed;
  readonly histograms: readonly (NumberHistogram | WordsHistogram | null)[];
  readonly passing: { readonly rows: Packed; readonly classes: Packed | null; readonly means: Packed | null };
  readonly importances: readonly number[];
  /** The standard deviation of each column's cells. */
  readonly spreads: readonly number[];
  readonly performance: ClassPerformance | ValuePerformance | null;
}

const BYTES: Record<Stored, number> = { f8: 8, i4: 4, u1: 1 };

/** Decompress an array and put the bytes of each number together again. */
async function unpack(packed: Packed): Promise<ArrayBuffer> {
  const text = atob(packed.data);
  const compressed = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  const stream = new Blob([compressed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const byPlace = new Uint8Array(await new Response(stream).arrayBuffer());
  const width = BYTES[packed.stored];
  if (byPlace.length !== packed.length * width) throw new Error("an array of this page is damaged");
  const bytes = new Uint8Array(byPlace.length);
  for (let place = 0; place < width; place++) {
    for (let k = 0; k < packed.length; k++) bytes[k * width + place] = byPlace[place * packed.length + k];
  }
  return bytes.buffer;
}

export async function floats(packed: Packed): Promise<Float64Array> {
  return new Float64Array(await unpack(packed));
}

export async function integers(packed: Packed): Promise<Int32Array> {
  return new Int32Array(await unpack(packed));
}

export async function bytes(packed: Packed): Promise<Uint8Array> {
  return new Uint8Array(await unpack(packed));
}
