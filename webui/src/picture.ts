/** Graphs saved as one picture, with their titles and legends. */
import { colour } from "./captures/layers";

export interface Part {
  canvas: HTMLCanvasElement;
  title: string;
  /** Name and colour of each series. */
  legend: [string, string][];
}

const EDGE = 10;
const LINE = 20;

/** The parts one below the other, on the page's paper. */
export function picture(parts: Part[]): Promise<Blob | null> {
  const scale = devicePixelRatio;
  const width = Math.max(0, ...parts.map((part) => part.canvas.width)) + 2 * EDGE * scale;
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d")!;
  const laid = parts.map((part) => ({ ...part, lines: lines(context, part.legend, width / scale - 2 * EDGE) }));
  canvas.width = width;
  canvas.height = laid.reduce((sum, { canvas, lines }) => sum + canvas.height + (lines.length + 2) * LINE * scale, EDGE * scale);
  context.fillStyle = colour("paper");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.scale(scale, scale);
  let y = EDGE;
  for (const { canvas: graph, title, lines } of laid) {
    context.fillStyle = colour("ink");
    context.font = "600 14px system-ui, sans-serif";
    context.fillText(title, EDGE, y + 14);
    y += LINE;
    context.font = FONT;
    for (const line of lines) {
      for (const { x, name, mark } of line) {
        context.fillStyle = colour(mark);
        context.fillRect(EDGE + x, y + 4, 10, 10);
        context.fillStyle = colour("soft");
        context.fillText(name, EDGE + x + 14, y + 13);
      }
      y += LINE;
    }
    context.drawImage(graph, EDGE, y, graph.width / scale, graph.height / scale);
    y += graph.height / scale + LINE;
  }
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

const FONT = "12px system-ui, sans-serif";

/** A legend broken into lines. */
function lines(context: CanvasRenderingContext2D, legend: [string, string][], width: number): { x: number; name: string; mark: string }[][] {
  const found: { x: number; name: string; mark: string }[][] = [];
  let x = 0;
  context.font = FONT;
  for (const [name, mark] of legend) {
    const needed = context.measureText(name).width + 30;
    if (!found.length || x + needed > width) {
      found.push([]);
      x = 0;
    }
    found.at(-1)!.push({ x, name, mark });
    x += needed;
  }
  return found;
}

/** Offer `parts` as a file. */
export async function save(parts: Part[], name: string): Promise<void> {
  const blob = await picture(parts);
  if (!blob) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
