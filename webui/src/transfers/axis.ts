/** Everything that is known of a test on one axis of time: a graph for each characteristic, a line for each source. */
import uPlot from "uplot";
import { short } from "../format";
import type { Part } from "../picture";
import { looks } from "./live";

export interface Chart {
  title: string;
  unit: string;
  lines: { source: string; values: (number | null)[] }[];
}
export interface Axis {
  /** Since the start. */
  time_s: number[];
  charts: Chart[];
}

/** Marks of lines, in their order. */
export const MARKS = ["data", "again", "ack", "probe", "dsack", "reordered", "stamp", "edge"];
export const mark = (line: number) => MARKS[line % MARKS.length]!;

const HEIGHT = 200;

export class Plots {
  private readonly plots = new Map<Chart, uPlot>();
  private readonly places = new Map<Chart, HTMLElement>();
  private readonly key = uPlot.sync(`axis-${Math.random()}`);

  constructor(
    private readonly axis: Axis,
    private readonly pointed: (text: string) => void,
  ) {}

  attach(chart: Chart, place: HTMLElement): () => void {
    const colours = chart.lines.map((_, line) => mark(line));
    const options = looks(place.clientWidth, HEIGHT, colours, this.key.key, (plot) => this.point(plot));
    const plot = new uPlot(options, [this.axis.time_s, ...chart.lines.map(({ values }) => values)], place);
    this.plots.set(chart, plot);
    this.places.set(chart, place);
    return () => {
      this.plots.delete(chart);
      this.key.unsub(plot);
      plot.destroy();
    };
  }

  redraw(): void {
    for (const plot of this.plots.values()) plot.redraw(false);
  }

  resize(): void {
    for (const [chart, plot] of this.plots) {
      const width = this.places.get(chart)!.clientWidth;
      if (width && width !== plot.width) plot.setSize({ width, height: plot.height });
    }
  }

  parts(only?: Chart): Part[] {
    return [...this.plots]
      .filter(([chart]) => !only || chart === only)
      .map(([{ title, unit, lines }, plot]) => ({
        canvas: plot.ctx.canvas,
        title: `${title}, ${unit}`,
        legend: lines.map(({ source }, line): [string, string] => [source, mark(line)]),
      }));
  }

  private point(plot: uPlot): void {
    const at = plot.cursor.idx;
    const time = at == null ? undefined : this.axis.time_s[at];
    if (at == null || time === undefined || plot.cursor.left == null || plot.cursor.left < 0) return this.pointed("");
    const told = [...this.plots.keys()].flatMap(({ title, unit, lines }) =>
      lines.flatMap(({ source, values }) => (values[at] == null ? [] : [`${title} (${source}) ${short(values[at], 4)} ${unit}`])),
    );
    this.pointed([`${time.toFixed(3)} s`, ...told].join(" · "));
  }
}
