import { mount } from "svelte";
import App from "./App.svelte";
import "uplot/dist/uPlot.min.css";
import "./app.css";
import "./captures/graphs.css";

mount(App, { target: document.getElementById("app")! });
