/** Graphs of a transfer that grow while it runs, with linked cursors. */
import uPlot from "uplot";
import type { Interval } from "../api";
import { short } from "../format";
import { colour } from "../captures/layers";
import type { Part } from "../picture";

type Value = (interval: Interval) => number | null;

export const LIVE = [
  { key: "throughput", title: "Throughput", unit: "bit/s", height: 240, of: ((i) => i.throughput_bps) as Value },
  { key: "rtt", title: "Round trip", unit: "ms", height: 180, of: ((i) => (i.rtt_us === null ? null : i.rtt_us / 1e3)) as Value },
  { key: "cwnd", title: "Congestion window", unit: "bytes", height: 180, of: ((i) => i.cwnd_bytes) as Value },
  { key: "again", title: "Sent again in an interval", unit: "segments", height: 150, of: ((i) => i.retransmissions) as Value },
  { key: "flight", title: "In flight", unit: "bytes", height: 180, of: ((i) => i.flight_bytes ?? null) as Value },
  { key: "window", title: "Receiver’s window", unit: "bytes", height: 180, of: ((i) => i.window_bytes ?? null) as Value },
  { key: "unsent", title: "Not sent yet", unit: "bytes", height: 180, of: ((i) => i.unsent_bytes ?? null) as Value },
  { key: "delivery", title: "Delivery rate", unit: "bit/s", height: 180, of: ((i) => i.delivery_bps ?? null) as Value },
  { key: "latency", title: "Block latency, p99", unit: "ms", height: 180, of: ((i) => (i.latency_p99_ns == null ? null : i.latency_p99_ns / 1e6)) as Value },
] as const;
export type Key = (typeof LIVE)[number]["key"];
/** Those that are drawn unless others are chosen. */
export const USUAL: Key[] = ["throughput", "rtt", "cwnd", "again"];

const DIRECTIONS = ["up", "down"] as const;
const COLOURS = { up: "data", down: "again" };

/** A plot over seconds, with a line per colour, whose cursor and zoom all plots with this key share. */
export function looks(width: number, height: number, colours: string[], key: string, pointed: (plot: uPlot) => void): uPlot.Options {
  const axis: uPlot.Axis = {
    stroke: () => colour("soft"),
    grid: { stroke: () => colour("grid"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  };
  return {
    width,
    height,
    legend: { show: false },
    padding: [8, 20, 0, 0],
    cursor: { y: false, drag: { x: true, y: false, setScale: true }, sync: { key, scales: ["x", null] } },
    scales: { x: { time: false }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.06 : 1] } },
    axes: [
      { ...axis, size: 34, values: (_, splits) => splits.map((each) => `${Number(each.toFixed(3))} s`) },
      { ...axis, size: 62, values: (_, splits) => splits.map((each) => short(each)) },
    ],
    series: [{}, ...colours.map((name): uPlot.Series => ({ stroke: () => colour(name), width: 1.6, points: { show: false }, spanGaps: true }))],
    hooks: { setCursor: [(plot) => plot.cursor.event && pointed(plot)] },
  };
}

export class Live {
  private intervals: Interval[] = [];
  private readonly plots = new Map<Key, uPlot>();
  private readonly places = new Map<Key, HTMLElement>();
  private readonly key = uPlot.sync(`live-${Math.random()}`);
  private frame = 0;

  constructor(private readonly pointed: (text: string) => void) {}

  attach(key: Key, place: HTMLElement): () => void {
    const about = LIVE.find((each) => each.key === key)!;
    const series = DIRECTIONS.map((direction) => COLOURS[direction]);
    const options = looks(place.clientWidth, about.height, series, this.key.key, (plot) => this.point(plot));
    const plot = new uPlot(options, this.data(about.of), place);
    this.plots.set(key, plot);
    this.places.set(key, place);
    return () => {
      this.plots.delete(key);
      this.key.unsub(plot);
      plot.destroy();
    };
  }

  add(interval: Interval): void {
    this.intervals.push(interval);
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      for (const { key, of } of LIVE) this.plots.get(key)?.setData(this.data(of));
    });
  }

  clear(): void {
    this.intervals = [];
  }

  redraw(): void {
    for (const plot of this.plots.values()) plot.redraw(false);
  }

  /** A graph, or all of them, to be saved. */
  parts(directions: [Interval["direction"], string][], only?: Key): Part[] {
    const legend = directions.map(([direction, name]): [string, string] => [name, COLOURS[direction]]);
    return LIVE.flatMap(({ key, title, unit }) => {
      const plot = this.plots.get(key);
      return plot && (!only || only === key) ? [{ canvas: plot.ctx.canvas, title: `${title}, ${unit}`, legend }] : [];
    });
  }

  resize(): void {
    for (const [key, plot] of this.plots) {
      const width = this.places.get(key)!.clientWidth;
      if (width && width !== plot.width) plot.setSize({ width, height: plot.height });
    }
  }

  close(): void {
    cancelAnimationFrame(this.frame);
  }

  /** Times at the ends of intervals, and a column per direction; both have times of their own. */
  private data(of: Value): uPlot.AlignedData {
    const tables = DIRECTIONS.map((direction): uPlot.AlignedData => {
      const mine = this.intervals.filter((each) => each.direction === direction);
      return [mine.map((each) => each.to_s), mine.map(of)];
    });
    return uPlot.join(tables);
  }

  private point(plot: uPlot): void {
    const at = plot.cursor.idx;
    if (at == null || plot.cursor.left == null || plot.cursor.left < 0) return this.pointed("");
    const time = plot.data[0][at];
    const parts = time === undefined ? [] : [`${time.toFixed(3)} s`];
    for (const { key, title, unit } of LIVE) {
      const columns = this.plots.get(key)?.data.slice(1) ?? [];
      for (const column of columns) {
        const value = column[at];
        if (value != null) parts.push(`${title} ${short(value, 4)} ${unit}`);
      }
    }
    this.pointed(parts.join(" · "));
  }
}
