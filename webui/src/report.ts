/** The graphs of a report: the same as in the page, from the data in its file. */
import { mount } from "svelte";
import type { PackedLayer, Side } from "./api";
import type { Drawn } from "./captures/graphs";
import GraphsView from "./captures/GraphsView.svelte";
import { unpacked } from "./captures/layers";
import "uplot/dist/uPlot.min.css";
import "./captures/graphs.css";

interface ReportData extends Drawn {
  causes: PackedLayer[];
  layers: Record<Side, PackedLayer[]>;
}

const data = JSON.parse(document.getElementById("data")!.textContent!) as ReportData;
const layers = { a: data.layers.a.map(unpacked), b: data.layers.b.map(unpacked) };

mount(GraphsView, {
  target: document.getElementById("graphs-here")!,
  props: { connection: data, causes: data.causes.map(unpacked), source: async (side: Side) => layers[side] },
});
