// Numbers, dates and names for readers.

/** Write a number with at most `digits` significant digits, in full where it is neither tiny nor huge. */
export function number(value: number, digits = 6): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "not a number" : value > 0 ? "\u221e" : "\u2212\u221e";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e15) return minus(value.toExponential(digits - 1).replace(/\.?0+e/, "e"));
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  const text = value.toFixed(Math.min(decimals, 100));
  return minus(decimals ? text.replace(/\.?0+$/, "") : text);
}

/** A real minus sign is as wide as a plus. */
function minus(text: string): string {
  return text.replace(/^-/, "\u2212");
}

/** Write a number with its sign. */
export function signed(value: number, digits = 4): string {
  return (value >= 0 ? "+" : "") + number(value, digits);
}

/** Write several numbers so that different ones read differently: those that would not get more digits. */
export function distinct(values: Iterable<number>, digits: number): Map<number, string> {
  const written = new Map<number, string>();
  let alike = [...new Set(values)];
  for (let tried = digits; tried < 17 && alike.length; tried++) {
    const readings = new Map<string, number>();
    const texts = alike.map((value) => number(value, tried));
    for (const text of [...texts, ...written.values()]) readings.set(text, (readings.get(text) ?? 0) + 1);
    alike = alike.filter((value, k) => {
      if (readings.get(texts[k])! > 1) return true;
      written.set(value, texts[k]);
      return false;
    });
  }
  for (const value of alike) written.set(value, String(value));
  return written;
}

/** Write a share between 0 and 1 in percent; only a share of exactly 0 or 1 reads as 0% or 100%. */
export function percent(share: number): string {
  if (share === 0 || share === 1) return `${100 * share}%`;
  if (share > 0 && share < 0.001) return "<0.1%";
  if (share > 0.999 && share < 1) return ">99.9%";
  return Number.isFinite(share) ? `${(100 * share).toFixed(1).replace(/\.0$/, "")}%` : number(share);
}

export function count(value: number): string {
  return value.toLocaleString("en");
}

/** A number with the word for one or for many. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

const MOST_SECONDS = 8.64e12;

/** Write seconds since 1970 as a date and time in UTC; the time is left out at midnight. */
export function moment(seconds: number): string {
  if (!(Math.abs(seconds) < MOST_SECONDS)) return number(seconds);
  const micros = Math.round(seconds * 1e6);
  const whole = Math.floor(micros / 1e6);
  const text = new Date(whole * 1000).toISOString().replace("T", " ").slice(0, -5);
  const rest = micros - whole * 1e6;
  return rest ? `${text}.${String(rest).padStart(6, "0")}` : text.replace(/ 00:00:00$/, "");
}

/** Read what `moment` writes; null where a text is no date. */
export function parseMoment(text: string): number | null {
  const parts = /^([+-]?\d{4,6}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,6}))?)?Z?$/.exec(text.trim());
  if (parts === null) return null;
  const clock = parts[2] === undefined ? "00:00:00" : parts[2].length === 5 ? `${parts[2]}:00` : parts[2];
  const millis = Date.parse(`${parts[1]}T${clock}Z`);
  if (Number.isNaN(millis)) return null;
  return (millis * 1000 + Number((parts[3] ?? "").padEnd(6, "0"))) / 1e6;
}

/** Read a number; NaN for a missing one, null where a text is neither. */
export function parseNumber(text: string): number | null {
  const plain = text.trim().replace("\u2212", "-").toLowerCase();
  if (["", "missing", "nan", "na", "null", "none"].includes(plain)) return NaN;
  if (/^[+-]?(inf|infinity|\u221e)$/.test(plain)) return plain.startsWith("-") ? -Infinity : Infinity;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/.test(plain) ? Number(plain) : null;
}

/** Cut a text, by what a reader counts as characters. */
export function cut(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const letters = [...text];
  return letters.length <= limit ? text : `${letters.slice(0, limit - 1).join("")}\u2026`;
}

/** Keep a name from turning the text around it: first-strong isolate, pop isolate. */
export function isolated(text: string): string {
  return `\u2068${text}\u2069`;
}
