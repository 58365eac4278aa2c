/** Numbers and times as text. */

const UNITS: [number, string][] = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

export function short(value: number, digits = 6): string {
  const [factor, prefix] = UNITS.find(([size]) => Math.abs(value) >= size) ?? [1, ""];
  return `${Number((value / factor).toPrecision(digits))}${prefix && ` ${prefix}`}`;
}

/** Labels of an axis that differ however close its ticks are: all with the prefix of the greatest one. */
export function axisLabels(values: number[], step: number): string[] {
  const most = Math.max(...values.map(Math.abs));
  const [factor, prefix] = UNITS.find(([size]) => most >= size) ?? [1, ""];
  const digits = exactDigits(step / factor);
  // Beyond that a plain number is shorter.
  if (digits > 6 && step >= 1) return values.map((each) => each.toFixed(0));
  return values.map((each) => `${Number((each / factor).toFixed(digits))}${each && prefix ? ` ${prefix}` : ""}`);
}

export function bytes(value: number): string {
  return `${short(value, 3)}${value >= 1000 ? "" : " "}B`;
}

/** `1 step`, `1,200 steps`. */
export function count(number: number, what: string): string {
  return `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
}

/** How long something takes: `40 s`, `12 min`, `3.5 h`. */
export function span(seconds: number): string {
  if (seconds < 90) return `${Math.max(Math.round(seconds), 1)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Number((seconds / 3600).toFixed(1))} h`;
}

/** In the time zone of this browser: `2026-11-29 14:05`. */
export function date(iso: string): string {
  const moment = new Date(/(Z|[+-]\d\d:\d\d)$/.test(iso) ? iso : `${iso}Z`);
  return Number.isNaN(moment.getTime()) ? iso : moment.toLocaleString("sv").slice(0, 16);
}

/** So many digits behind the point that multiples of `step` differ. */
export function digitsFor(step: number): number {
  return Math.min(9, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
}

/** So many that `step` is exact: three for 0.025. */
export function exactDigits(step: number): number {
  let digits = digitsFor(step);
  while (digits < 9 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-6) digits += 1;
  return digits;
}

/** `seconds` after the first packet: as such, or as time of day in UTC. */
export function moment(seconds: number, digits: number, clock: "relative" | "absolute", startNs: bigint): string {
  if (clock === "relative") return `${seconds.toFixed(digits)} s`;
  const ns = startNs + BigInt(Math.round(seconds * 1e9));
  const whole = new Date(Number(ns / 1000000n)).toISOString().slice(11, 19);
  return `${whole}${digits ? `.${(ns % 1000000000n).toString().padStart(9, "0").slice(0, digits)}` : ""}`;
}
