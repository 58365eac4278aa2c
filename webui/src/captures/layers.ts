/** Layers of points as the service sends them, and how they are drawn on a canvas. */
import type uPlot from "uplot";
import type { PackedLayer } from "../api";

export interface Layer extends Omit<PackedLayer, "x" | "low" | "high" | "mean"> {
  x: Float64Array;
  low: Float64Array;
  high: Float64Array;
  mean?: Float64Array;
}

export function unpacked(layer: PackedLayer): Layer {
  const { x, low, high, mean, ...about } = layer;
  return { ...about, x: doubles(x), low: doubles(low), high: doubles(high), ...(mean ? { mean: doubles(mean) } : {}) };
}

/** Little-endian, as they were written, whatever the machine. */
function doubles(text: string): Float64Array {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const view = new DataView(bytes.buffer);
  const numbers = new Float64Array(bytes.length / 8);
  for (let i = 0; i < numbers.length; i++) numbers[i] = view.getFloat64(8 * i, true);
  return numbers;
}

/** First index whose time is not before `time`. */
export function firstAt(x: Float64Array, time: number): number {
  let low = 0;
  let high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle]! < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** What reaches in from the left, or on to the right, is seen too. */
export function visible(layer: Layer, min: number, max: number): [number, number] {
  const beside = layer.kind === "bars" || layer.kind === "marks" ? 0 : 1;
  return [Math.max(0, firstAt(layer.x, min) - beside), Math.min(layer.x.length, firstAt(layer.x, max) + beside)];
}

export interface Extent {
  min: number;
  max: number;
  /** The window is so far above that it is left outside. */
  beyond: boolean;
}

/** From where to where the values go of what is shown from `min` to `max`. */
export function extent(layers: Layer[], fromZero: boolean, min: number, max: number): Extent {
  let least = fromZero ? 0 : Infinity;
  let most = -Infinity;
  let edge = -Infinity;
  for (const layer of layers) {
    const [from, to] = visible(layer, min, max);
    for (let i = from; i < to; i++) {
      const high = layer.high[i]!;
      if (layer.colour === "edge") {
        edge = Math.max(edge, high);
        continue;
      }
      if (high > most) most = high;
      if (!fromZero && layer.low[i]! < least) least = layer.low[i]!;
    }
  }
  if (!(most >= least)) return { min: 0, max: edge > 0 ? edge * 1.04 : 1, beyond: false };
  // A window that is far from full would press all else flat.
  const beyond = edge - most > 1.5 * (most - least);
  if (!beyond) most = Math.max(most, edge);
  const room = (most - least) * 0.04 || 1;
  return { min: fromZero ? 0 : least - room, max: most + room, beyond };
}

/** The point of `layer` that is meant by `time`, as text; empty where there is none near. */
export function valueAt(layer: Layer, time: number, near: number): number | undefined {
  const steps = layer.kind === "line" || layer.kind === "blocks";
  let i = firstAt(layer.x, time);
  if (steps) i = layer.x[i] === time ? i : i - 1;
  else if (i === layer.x.length || (i > 0 && time - layer.x[i - 1]! < layer.x[i]! - time)) i -= 1;
  if (i < 0) return undefined;
  if (!steps && Math.abs(layer.x[i]! - time) > near) return undefined;
  if (layer.kind === "blocks" && time > layer.x[i]! + layer.low[i]!) return undefined;
  return layer.mean ? layer.mean[i] : layer.high[i];
}

type Draw = (plot: uPlot, context: CanvasRenderingContext2D, layer: Layer, from: number, to: number) => void;

const bars: Draw = (plot, context, layer, from, to) => {
  context.lineWidth = 1.4 * devicePixelRatio;
  context.beginPath();
  for (let i = from; i < to; i++) {
    const x = plot.valToPos(layer.x[i]!, "x", true);
    const low = plot.valToPos(layer.low[i]!, "y", true);
    const high = plot.valToPos(layer.high[i]!, "y", true);
    context.moveTo(x, low);
    context.lineTo(x, Math.min(high, low - devicePixelRatio));
  }
  context.stroke();
};

/** What does not change until it is told anew: steps. */
const line: Draw = (plot, context, layer, from, to) => {
  context.lineWidth = 1.3 * devicePixelRatio;
  context.beginPath();
  for (let i = from; i < to; i++) {
    const x = plot.valToPos(layer.x[i]!, "x", true);
    const low = plot.valToPos(layer.low[i]!, "y", true);
    const high = plot.valToPos(layer.high[i]!, "y", true);
    if (i === from) context.moveTo(x, low);
    else context.lineTo(x, low);
    if (high !== low) context.lineTo(x, high);
    if (i + 1 < layer.x.length) context.lineTo(plot.valToPos(layer.x[i + 1]!, "x", true), high);
  }
  context.stroke();
};

const band: Draw = (plot, context, layer, from, to) => {
  context.globalAlpha = 0.35;
  bars(plot, context, layer, from, to);
  context.globalAlpha = 1;
  context.lineWidth = 1.3 * devicePixelRatio;
  context.beginPath();
  for (let i = from; i < to; i++) {
    const x = plot.valToPos(layer.x[i]!, "x", true);
    const y = plot.valToPos(layer.mean![i]!, "y", true);
    if (i === from) context.moveTo(x, y);
    else context.lineTo(x, y);
  }
  context.stroke();
};

const blocks: Draw = (plot, context, layer, from, to) => {
  const floor = plot.valToPos(0, "y", true);
  for (let i = from; i < to; i++) {
    const left = plot.valToPos(layer.x[i]!, "x", true);
    const right = plot.valToPos(layer.x[i]! + layer.low[i]!, "x", true);
    const top = plot.valToPos(layer.high[i]!, "y", true);
    // A gap between blocks that are broad enough for one.
    context.fillRect(left, top, Math.max(right - left - (right - left > 6 ? 1 : 0), 1), floor - top);
  }
};

/** The shape of each meaning: colour is never the only difference. As corners around the middle; app.css has the same. */
const SHAPES: Record<string, [number, number][]> = {
  timeout: [[-1, -1], [1, -1], [1, 1], [-1, 1]],
  fast: [[0, -1], [1, 1], [-1, 1]],
  probe: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]],
  unexplained: [[-1, -0.4], [-0.4, -1], [0.4, -1], [1, -0.4], [1, 0.4], [0.4, 1], [-0.4, 1], [-1, 0.4]],
  reordered: [[-1, -1], [1, -1], [0, 1]],
  closed: [[-1.3, -0.4], [1.3, -0.4], [1.3, 0.4], [-1.3, 0.4]],
};

const marks: Draw = (plot, context, layer, from, to) => {
  bars(plot, context, layer, from, to);
  const size = 3.4 * devicePixelRatio;
  const corners = SHAPES[layer.colour] ?? SHAPES.fast!;
  for (let i = from; i < to; i++) {
    const x = plot.valToPos(layer.x[i]!, "x", true);
    const y = plot.valToPos(layer.high[i]!, "y", true);
    context.beginPath();
    for (const [right, down] of corners) context.lineTo(x + right * size, y + down * size);
    context.fill();
  }
};

const DRAWING: Record<Layer["kind"], Draw> = { bars, line, band, blocks, marks };

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Draw blocks of time into `plot`: each column shows how much of its time each layer had. */
export function drawShares(plot: uPlot, layers: Layer[]): void {
  const context = plot.ctx;
  const { left, top, width, height } = plot.bbox;
  const { min, max } = plot.scales.x!;
  const perColumn = (max! - min!) / width;
  const floor = new Float64Array(width);
  for (const layer of layers) {
    const had = new Float64Array(width);
    const [from, to] = visible(layer, min!, max!);
    context.fillStyle = colour(layer.colour);
    for (let i = from; i < to; i++) {
      const begin = Math.max(0, (layer.x[i]! - min!) / perColumn);
      const end = Math.min(width, (layer.x[i]! + layer.low[i]! - min!) / perColumn);
      for (let column = Math.floor(begin); column < end; column++) {
        had[column]! += Math.min(end, column + 1) - Math.max(begin, column);
      }
    }
    for (let column = 0; column < width; column++) {
      if (!had[column]) continue;
      context.fillRect(left + column, top + height * (1 - floor[column]! - had[column]!), 1, height * had[column]!);
      floor[column]! += had[column]!;
    }
  }
  context.fillStyle = colour("paper");
  context.font = `600 ${12 * devicePixelRatio}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (const layer of layers) {
    const [from, to] = visible(layer, min!, max!);
    const name = layer.name.replace(/\s\S+\s%$/, "");
    for (let i = from; i < to; i++) {
      const begin = Math.max(0, (layer.x[i]! - min!) / perColumn);
      const end = Math.min(width, (layer.x[i]! + layer.low[i]! - min!) / perColumn);
      if (context.measureText(name).width + 12 * devicePixelRatio < end - begin) {
        context.fillText(name, left + (begin + end) / 2, top + height / 2);
      }
    }
  }
}

/** Draw `layers` into `plot`, between its axes. */
export function draw(plot: uPlot, layers: Layer[]): void {
  const context = plot.ctx;
  const { left, top, width, height } = plot.bbox;
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  for (const layer of layers) {
    const [from, to] = visible(layer, plot.scales.x!.min!, plot.scales.x!.max!);
    context.strokeStyle = context.fillStyle = colour(layer.colour);
    DRAWING[layer.kind](plot, context, layer, from, to);
  }
  context.restore();
}
