/** Several graphs over one time axis, with linked cursors; zooming in fetches that part again. */
import uPlot from "uplot";
import { ask, type Connection, type PackedLayer, type Side } from "../api";
import { digitsFor, exactDigits, moment, short } from "../format";
import { colour, draw, extent, unpacked, valueAt, type Layer } from "./layers";
import type { Part } from "../picture";

export const CHARTS = [
  { key: "sequence", title: "Sequence numbers", unit: "bytes", height: 420 },
  { key: "throughput", title: "Throughput", unit: "bit/s", height: 190 },
  { key: "rtt", title: "Round trip", unit: "ms", height: 190 },
  { key: "flight", title: "In flight and window", unit: "bytes", height: 210 },
] as const;
export type ChartKey = (typeof CHARTS)[number]["key"];
export type Clock = "relative" | "absolute";

export interface View {
  layers: Layer[];
  beyond: Record<string, boolean>;
  cursor: string;
  busy: boolean;
  failure: string;
  range: [number, number];
}

const WAIT_MS = 80;
const LEAST_S = 2e-9;

/** Draws into one element per chart; `changed` is called with all that is to be shown beside. */
export class Graphs {
  side: Side;
  clock: Clock = "relative";
  readonly hidden = new Set<string>();
  private readonly whole: [number, number];
  private readonly startNs: bigint;
  private readonly places = new Map<ChartKey, HTMLElement>();
  private readonly plots = new Map<ChartKey, uPlot>();
  private readonly key = uPlot.sync(`time-${Math.random()}`);
  private view: View;
  private abort: AbortController | undefined;
  private timer = 0;

  constructor(
    private readonly dataId: string,
    private readonly connection: Connection,
    private readonly changed: (view: View) => void,
  ) {
    this.side = connection.busier;
    this.startNs = BigInt(connection.start_ns);
    const { from, to } = connection;
    const room = (to - from) * 0.005;
    this.whole = to > from ? [from - room, to + room] : [from - 0.5, from + 0.5];
    this.view = { layers: [], beyond: {}, cursor: "", busy: true, failure: "", range: this.whole };
  }

  /** Draw `chart` into `place`, until the returned function is called. */
  attach(chart: ChartKey, place: HTMLElement): () => void {
    this.places.set(chart, place);
    this.make(chart);
    return () => {
      this.drop(chart);
      this.places.delete(chart);
    };
  }

  get shown(): Layer[] {
    return this.view.layers.filter((layer) => !this.hidden.has(`${layer.chart}/${layer.name}`));
  }

  async fetch(): Promise<void> {
    this.abort?.abort();
    const { signal } = (this.abort = new AbortController());
    const [from, to] = this.view.range;
    const widest = Math.max(300, ...[...this.plots.values()].map((plot) => plot.bbox.width));
    const columns = Math.min(4000, Math.round(widest));
    this.tell({ busy: true });
    try {
      const query = `side=${this.side}&from=${from}&to=${to}&columns=${columns}`;
      const path = `captures/${this.dataId}/connections/${this.connection.id}/graphs?${query}`;
      const answer = await ask<{ layers: PackedLayer[] }>(path, { signal });
      this.tell({ layers: answer.layers.map(unpacked), busy: false, failure: "" });
      for (const [chart, plot] of this.plots) this.fit(plot, chart);
    } catch (error) {
      if (!signal.aborted) this.tell({ busy: false, failure: (error as Error).message });
    }
  }

  redraw(): void {
    for (const [chart, plot] of this.plots) {
      this.fit(plot, chart);
      plot.redraw(false);
    }
  }

  /** Axes are made anew, for another clock. */
  remake(): void {
    for (const chart of [...this.plots.keys()]) {
      this.drop(chart);
      this.make(chart);
    }
  }

  resize(): void {
    for (const [chart, plot] of this.plots) {
      const width = this.places.get(chart)!.clientWidth;
      if (width && width !== plot.width) plot.setSize({ width, height: plot.height });
    }
  }

  step(where: "left" | "right" | "in" | "out" | "all"): void {
    let [min, max] = this.view.range;
    const quarter = (max - min) / 4;
    if (where === "left") [min, max] = [min - quarter, max - quarter];
    if (where === "right") [min, max] = [min + quarter, max + quarter];
    if (where === "in") [min, max] = [min + quarter, max - quarter];
    if (where === "out") [min, max] = [min - 2 * quarter, max + 2 * quarter];
    const [first, last] = this.whole;
    if (where === "all" || max - min >= last - first) [min, max] = this.whole;
    else if (min < first) [min, max] = [first, first + max - min];
    else if (max > last) [min, max] = [last - (max - min), last];
    if (max - min >= LEAST_S) this.follow(min, max);
  }

  /** A graph, or all of them, to be saved. */
  parts(only?: ChartKey): Part[] {
    return CHARTS.flatMap(({ key, title, unit }) => {
      const plot = this.plots.get(key);
      if (!plot || (only && only !== key)) return [];
      return [{ canvas: plot.ctx.canvas, title: `${title}, ${unit}`, legend: this.layersOf(key).map((layer): [string, string] => [layer.name, layer.colour]) }];
    });
  }

  close(): void {
    clearTimeout(this.timer);
    this.abort?.abort();
    for (const chart of [...this.plots.keys()]) this.drop(chart);
  }

  private tell(change: Partial<View>): void {
    this.view = { ...this.view, ...change };
    this.changed(this.view);
  }

  private layersOf(chart: ChartKey): Layer[] {
    return this.shown.filter((layer) => layer.chart === chart);
  }

  private make(chart: ChartKey): void {
    const place = this.places.get(chart)!;
    const plot = new uPlot(this.options(chart, place.clientWidth), [this.whole, [null, null]], place);
    this.plots.set(chart, plot);
    const [min, max] = this.view.range;
    plot.setScale("x", { min, max });
  }

  private drop(chart: ChartKey): void {
    const plot = this.plots.get(chart);
    if (!plot) return;
    this.plots.delete(chart);
    this.key.unsub(plot);
    plot.destroy();
  }

  private options(chart: ChartKey, width: number): uPlot.Options {
    const axis: uPlot.Axis = {
      stroke: () => colour("soft"),
      grid: { stroke: () => colour("grid"), width: 1 },
      ticks: { show: false },
      font: "12px system-ui, sans-serif",
    };
    const digits = (step: number) => exactDigits(step);
    return {
      width,
      height: CHARTS.find(({ key }) => key === chart)!.height,
      legend: { show: false },
      padding: [8, 12, 0, 0],
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: true, y: false, setScale: true },
        sync: {
          key: this.key.key,
          scales: ["x", null],
          filters: { pub: (type) => type !== "mousedown" && type !== "mouseup" },
        },
        bind: {
          dblclick: () => () => {
            this.step("all");
            return null;
          },
        },
      },
      scales: {
        x: { time: false, range: (_, min, max) => [min, max] },
        // Set after x: while x is being set a range of y would be made for the part shown before.
        y: { auto: false, range: (_, min, max) => [min ?? 0, max ?? 1] },
      },
      axes: [
        {
          ...axis,
          size: 34,
          space: this.clock === "relative" ? 70 : 110,
          values: (_, splits, __, ___, step) => splits.map((each) => moment(each, digits(step), this.clock, this.startNs)),
        },
        { ...axis, size: 62, values: (_, splits) => splits.map((each) => short(each)) },
      ],
      series: [{}, { show: true, paths: () => null, points: { show: false } }],
      hooks: {
        draw: [(plot) => draw(plot, this.layersOf(chart))],
        setScale: [
          (plot, key) => {
            if (key !== "x") return;
            // A scale that is set while another one is being set is forgotten.
            queueMicrotask(() => {
              if (this.plots.get(chart) === plot) this.fit(plot, chart);
            });
            this.follow(plot.scales.x!.min!, plot.scales.x!.max!);
          },
        ],
        setCursor: [
          (plot) => {
            if (plot.cursor.event) this.point(plot);
          },
        ],
      },
    };
  }

  private fit(plot: uPlot, chart: ChartKey): void {
    const { min: from, max: to } = plot.scales.x!;
    const { min, max, beyond } = extent(this.layersOf(chart), chart !== "sequence", from!, to!);
    plot.setScale("y", { min, max });
    if (Boolean(this.view.beyond[chart]) !== beyond) this.tell({ beyond: { ...this.view.beyond, [chart]: beyond } });
  }

  /** All graphs show this part, and it is fetched when the user rests. */
  private follow(min: number, max: number): void {
    if (min === this.view.range[0] && max === this.view.range[1]) return;
    this.tell({ range: [min, max], busy: true });
    for (const plot of this.plots.values()) {
      if (plot.scales.x!.min !== min || plot.scales.x!.max !== max) plot.setScale("x", { min, max });
    }
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.fetch(), WAIT_MS);
  }

  private point(plot: uPlot): void {
    if (plot.cursor.left == null || plot.cursor.left < 0) return this.tell({ cursor: "" });
    const [min, max] = this.view.range;
    const time = plot.posToVal(plot.cursor.left, "x");
    const near = ((max - min) / plot.width) * 6;
    const parts = [moment(time, digitsFor((max - min) / 2000), this.clock, this.startNs)];
    for (const layer of this.shown) {
      const value = valueAt(layer, time, near);
      if (value !== undefined && this.plots.has(layer.chart as ChartKey)) parts.push(`${layer.name} ${short(value, 5)}`);
    }
    this.tell({ cursor: parts.join(" · ") });
  }
}
