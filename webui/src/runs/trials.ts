/** Where the attempts of a run stand on a chart of delay over load. */
import type { Point } from "../api";

/** Colours of the page that differ also for the colour-blind; shapes tell loss and validity. */
const COLOURS = ["data", "again", "ack", "probe", "reordered", "dsack", "unexplained", "edge"];

export interface Mark {
  x: number;
  y: number;
  colour: string;
  shape: "loss-free" | "lossy" | "invalid";
  title: string;
}
export interface Tick {
  at: number;
  label: string;
}
export interface TrialChart {
  marks: Mark[];
  x: Tick[];
  y: Tick[];
  series: { name: string; colour: string }[];
  /** Attempts in which nothing arrived, which have no delay. */
  silent: number;
}

/** Chart of a plane of `width` × `height`; null without a point. */
export function trialChart(points: Point[], width: number, height: number): TrialChart | null {
  const drawn = points.filter((each) => each.rate_pps !== null && each.delay_ns !== null && each.delay_ns > 0);
  if (!drawn.length) return null;
  const names = [...new Set(drawn.map((each) => each.series))];
  const series = names.map((name, i) => ({ name, colour: COLOURS[i % COLOURS.length]! }));
  const most = Math.max(...drawn.map((each) => each.rate_pps!)) * 1.04 || 1;
  const logs = drawn.map((each) => Math.log10(each.delay_ns!));
  const low = Math.min(...logs) - 0.08;
  const high = Math.max(Math.max(...logs) + 0.08, low + 0.5);
  const atX = (pps: number) => (pps / most) * width;
  const atY = (ns: number) => height - ((Math.log10(ns) - low) / (high - low)) * height;
  return {
    marks: drawn.map((each) => ({
      x: atX(each.rate_pps!),
      y: atY(each.delay_ns!),
      colour: series[names.indexOf(each.series)]!.colour,
      shape: each.invalid ? "invalid" : each.loss ? "lossy" : "loss-free",
      title: told(each),
    })),
    x: linear(most).map((pps) => ({ at: atX(pps), label: rate(pps) })),
    y: decades(low, high).map((ns) => ({ at: atY(ns), label: delay(ns) })),
    series,
    silent: points.length - drawn.length,
  };
}

function told(one: Point): string {
  const loss = one.loss ? `, ${(one.loss * 100).toPrecision(2)} % lost` : "";
  const invalid = one.invalid ? `; does not count: ${one.invalid}` : "";
  return `${one.series && `${one.series}: `}${rate(one.rate_pps!)}, ${delay(one.delay_ns!)}${loss}${invalid}`;
}

function linear(most: number): number[] {
  const rough = most / 5;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * unit).find((each) => each >= rough)!;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

/** 1, 2 and 5 of each power of ten; only powers over many of them. */
function decades(low: number, high: number): number[] {
  const steps = high - low > 2.5 ? [1] : [1, 2, 5];
  const found = [];
  for (let power = Math.floor(low); power <= high; power += 1)
    for (const step of steps) {
      const log = power + Math.log10(step);
      if (log >= low && log <= high) found.push(step * 10 ** power);
    }
  return found;
}

function rate(pps: number): string {
  if (pps >= 1e6) return `${Number((pps / 1e6).toPrecision(3))} Mpps`;
  return pps >= 1e3 ? `${Number((pps / 1e3).toPrecision(3))} kpps` : `${Number(pps.toPrecision(3))} pps`;
}

function delay(ns: number): string {
  const [factor, unit] = ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return `${Number((ns / factor).toPrecision(3))} ${unit}`;
}
