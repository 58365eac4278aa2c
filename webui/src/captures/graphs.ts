/** Several graphs over one time axis, with linked cursors; zooming in fetches that part again. */
import uPlot from "uplot";
import type { Connection, Side } from "../api";
import { axisLabels, digitsFor, exactDigits, moment, short } from "../format";
import { colour, draw, drawShares, extent, firstAt, valueAt, type Layer } from "./layers";
import type { Part } from "../picture";
import { followFingers } from "./touch";

export const CHARTS = [
  { key: "cause", title: "Limited by", unit: "", height: 40, what: "What limited the transfer, and when." },
  {
    key: "sequence",
    title: "Sequence numbers",
    unit: "bytes",
    height: 300,
    what: "Segments, acknowledgements, the receiver's window, and retransmissions by their cause.",
  },
  { key: "throughput", title: "Throughput", unit: "bit/s", height: 190, what: "Payload per period, with retransmissions and with each byte once." },
  { key: "rtt", title: "Round trip", unit: "ms", height: 190, what: "From segments to their acknowledgements, and by time stamps." },
  { key: "flight", title: "In flight and window", unit: "bytes", height: 210, what: "Data not yet acknowledged, below the receiver's window." },
] as const;
export type ChartKey = (typeof CHARTS)[number]["key"];
export type Clock = "relative" | "absolute";

/** A connection as far as its graphs need it. */
export type Drawn = Pick<Connection, "id" | "busier" | "start_ns" | "from" | "to">;
/** Where the layers of a part come from: the service, or the file of a report. */
export type Source = (side: Side, from: number, to: number, columns: number, signal: AbortSignal) => Promise<Layer[]>;

/** What is at the pointer, and where that is on the screen. */
export interface Readout {
  time: string;
  values: { name: string; value: string; colour: string }[];
  x: number;
  y: number;
}

export interface View {
  layers: Layer[];
  beyond: Record<string, boolean>;
  cursor: Readout | null;
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
  private strip: Layer[] = [];
  private abort: AbortController | undefined;
  private timer = 0;

  constructor(
    connection: Drawn,
    private readonly source: Source,
    private readonly changed: (view: View) => void,
    side?: Side,
    range?: [number, number],
  ) {
    this.side = side ?? connection.busier;
    this.startNs = BigInt(connection.start_ns);
    const { from, to } = connection;
    const room = (to - from) * 0.005;
    this.whole = to > from ? [from - room, to + room] : [from - 0.5, from + 0.5];
    const inside = range && range[1] - range[0] >= LEAST_S && range[0] < this.whole[1] && range[1] > this.whole[0];
    this.view = { layers: [], beyond: {}, cursor: null, busy: true, failure: "", range: inside ? range : this.whole };
  }

  /** Is only a part shown? */
  get zoomed(): boolean {
    return this.view.range[0] !== this.whole[0] || this.view.range[1] !== this.whole[1];
  }

  /** What limited the data of the busier side; empty until it is known. */
  set causes(layers: Layer[]) {
    this.strip = layers;
    this.plots.get("cause")?.redraw(false);
  }

  /** Show the longest block of a cause; again, the next longest. */
  showCause(name: string): void {
    const layer = this.strip.find((each) => each.name === name);
    if (!layer) return;
    const [min, max] = this.view.range;
    const longest = [...layer.low.keys()].sort((a, b) => layer.low[b]! - layer.low[a]!);
    const here = longest.findIndex((i) => min <= layer.x[i]! && layer.x[i]! + layer.low[i]! <= max && layer.low[i]! > (max - min) / 2);
    this.showBlock(layer, longest[(here + 1) % longest.length]!);
  }

  private showBlock(layer: Layer, i: number): void {
    const room = layer.low[i]! * 0.05;
    this.follow(Math.max(layer.x[i]! - room, this.whole[0]), Math.min(layer.x[i]! + layer.low[i]! + room, this.whole[1]));
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
      const layers = await this.source(this.side, from, to, columns, signal);
      this.tell({ layers, busy: false, failure: "" });
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
    const [min, max] = this.view.range;
    const quarter = (max - min) / 4;
    if (where === "left") this.show(min - quarter, max - quarter);
    if (where === "right") this.show(min + quarter, max + quarter);
    if (where === "in") this.show(min + quarter, max - quarter);
    if (where === "out") this.show(min - 2 * quarter, max + 2 * quarter);
    if (where === "all") this.follow(...this.whole);
  }

  /** Show this part, moved to where there is something. */
  private show(min: number, max: number): void {
    const [first, last] = this.whole;
    if (max - min >= last - first) [min, max] = this.whole;
    else if (min < first) [min, max] = [first, first + max - min];
    else if (max > last) [min, max] = [last - (max - min), last];
    if (max - min >= LEAST_S) this.follow(min, max);
  }

  /** Move the pointer by this share of the width, as with a keyboard. */
  movePointer(by: number): void {
    const plot = this.plots.get("sequence") ?? [...this.plots.values()].at(-1);
    if (!plot) return;
    const { width, left, top } = plot.over.getBoundingClientRect();
    const now = plot.cursor.left == null || plot.cursor.left < 0 ? width / 2 : plot.cursor.left;
    const to = Math.min(width, Math.max(0, now + by * width));
    for (const each of this.plots.values()) each.setCursor({ left: to, top: 0 }, false);
    this.point(plot, { clientX: left + to, clientY: top + 20 });
  }

  private click(plot: uPlot, left: number): void {
    const time = plot.posToVal(left, "x");
    for (const layer of this.strip) {
      const i = firstAt(layer.x, time) - 1;
      if (i >= 0 && time < layer.x[i]! + layer.low[i]!) this.showBlock(layer, i);
    }
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
    if (chart === "cause") return this.strip;
    return this.shown.filter((layer) => layer.chart === chart);
  }

  private make(chart: ChartKey): void {
    const place = this.places.get(chart)!;
    const plot = new uPlot(this.options(chart, place.clientWidth), [this.whole, [null, null]], place);
    this.plots.set(chart, plot);
    followFingers(plot, {
      shown: () => this.view.range,
      show: (from, to) => this.show(from, to),
      point: (event) => this.point(plot, event),
    });
    if (chart === "cause") {
      let began = 0;
      plot.over.addEventListener("mousedown", (event) => (began = event.clientX));
      // A drag has zoomed already.
      plot.over.addEventListener("click", (event) => Math.abs(event.clientX - began) < 5 && this.click(plot, event.offsetX));
    }
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
    const strip = chart === "cause";
    return {
      width,
      height: CHARTS.find(({ key }) => key === chart)!.height,
      legend: { show: false },
      padding: strip ? [2, 12, 2, 0] : [8, 12, 0, 0],
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
          show: !strip,
          size: 34,
          space: this.clock === "relative" ? 70 : 110,
          values: (_, splits, __, ___, step) => splits.map((each) => moment(each, digits(step), this.clock, this.startNs)),
        },
        { ...axis, size: 76, grid: strip ? { show: false } : axis.grid!, values: (_, splits, __, ___, step) => (strip ? [] : axisLabels(splits, step)) },
      ],
      series: [{}, { show: true, paths: () => null, points: { show: false } }],
      hooks: {
        draw: [(plot) => (strip ? drawShares : draw)(plot, this.layersOf(chart))],
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
            if (plot.cursor.event) this.point(plot, plot.cursor.event);
          },
        ],
      },
    };
  }

  private fit(plot: uPlot, chart: ChartKey): void {
    if (chart === "cause") return;
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

  private point(plot: uPlot, at: { clientX: number; clientY: number }): void {
    if (plot.cursor.left == null || plot.cursor.left < 0) return this.tell({ cursor: null });
    const [min, max] = this.view.range;
    const time = plot.posToVal(plot.cursor.left, "x");
    const near = ((max - min) / plot.width) * 6;
    const values = [];
    for (const layer of [...this.strip, ...this.shown]) {
      if (!this.plots.has(layer.chart as ChartKey)) continue;
      const value = valueAt(layer, time, near);
      const unit = CHARTS.find(({ key }) => key === layer.chart)!.unit;
      const strip = layer.chart === "cause";
      if (value !== undefined) values.push({ name: layer.name, value: strip ? "" : `${short(value, 5)}${/[A-Z]$/i.test(short(value, 5)) ? "" : " "}${unit}`, colour: layer.colour });
    }
    const digits = digitsFor((max - min) / 2000);
    this.tell({ cursor: { time: moment(time, digits, this.clock, this.startNs), values, x: at.clientX, y: at.clientY } });
  }
}
