"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const startNs = BigInt(page.startNs);
  const charts = ["sequence", "throughput", "rtt", "flight"];
  const heights = { sequence: 420, throughput: 200, rtt: 200, flight: 220 };
  const sync = uPlot.sync("time");
  const whole = page.to > page.from ? [page.from, page.to] : [page.from - 0.5, page.from + 0.5];
  const plots = new Map();
  const hidden = new Set();
  let pointed = null;
  let range = whole, clock = "relative", direction = document.querySelector("[name=direction]:checked").value;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  function doubles(text) {
    const raw = atob(text), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    // Little-endian, as they were written, whatever the machine.
    const view = new DataView(bytes.buffer), numbers = new Float64Array(bytes.length / 8);
    for (let i = 0; i < numbers.length; i++) numbers[i] = view.getFloat64(8 * i, true);
    return numbers;
  }
  for (const layers of Object.values(page.layers)) {
    for (const layer of layers) for (const key of ["x", "low", "high", "mean"]) if (layer[key]) layer[key] = doubles(layer[key]);
  }
  const layersOf = (chart) => page.layers[direction].filter((layer) => layer.chart === chart);
  const shown = (layer) => !hidden.has(`${layer.chart}/${layer.name}`);

  // First index whose time is not before `time`.
  function firstAt(x, time) {
    let low = 0, high = x.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (x[middle] < time) low = middle + 1; else high = middle;
    }
    return low;
  }
  // What reaches in from the left, or on to the right, is seen too.
  function visible(layer, min, max) {
    const beside = layer.kind === "bars" || layer.kind === "marks" ? 0 : 1;
    return [Math.max(0, firstAt(layer.x, min) - beside), Math.min(layer.x.length, firstAt(layer.x, max) + beside)];
  }

  function extent(chart, min, max) {
    let least = chart === "sequence" ? Infinity : 0, most = -Infinity, edge = -Infinity;
    for (const layer of layersOf(chart).filter(shown)) {
      const [from, to] = visible(layer, min, max), isEdge = layer.colour === "edge";
      for (let i = from; i < to; i++) {
        if (isEdge) { edge = Math.max(edge, layer.high[i]); continue; }
        if (layer.high[i] > most) most = layer.high[i];
        if (chart === "sequence" && layer.low[i] < least) least = layer.low[i];
      }
    }
    if (!(most >= least)) return { min: 0, max: edge > 0 ? edge * 1.04 : 1, beyond: false };
    // A window that is far from full would press all else flat.
    const beyond = edge - most > 1.5 * (most - least);
    if (!beyond) most = Math.max(most, edge);
    const room = (most - least) * 0.04 || 1;
    return { min: chart === "sequence" ? least - room : 0, max: most + room, beyond };
  }

  const drawing = {
    bars(plot, context, layer, from, to) {
      context.lineWidth = 1.4 * devicePixelRatio;
      context.beginPath();
      for (let i = from; i < to; i++) {
        const x = plot.valToPos(layer.x[i], "x", true), low = plot.valToPos(layer.low[i], "y", true);
        const high = plot.valToPos(layer.high[i], "y", true);
        context.moveTo(x, low);
        context.lineTo(x, Math.min(high, low - devicePixelRatio));
      }
      context.stroke();
    },
    // What does not change until it is told anew: steps.
    line(plot, context, layer, from, to) {
      context.lineWidth = 1.3 * devicePixelRatio;
      if (layer.colour === "edge") context.setLineDash([6 * devicePixelRatio, 3 * devicePixelRatio]);
      context.beginPath();
      for (let i = from; i < to; i++) {
        const x = plot.valToPos(layer.x[i], "x", true), low = plot.valToPos(layer.low[i], "y", true);
        if (i === from) context.moveTo(x, low); else context.lineTo(x, low);
        if (layer.high[i] !== layer.low[i]) context.lineTo(x, plot.valToPos(layer.high[i], "y", true));
        if (i + 1 < layer.x.length) {
          context.lineTo(plot.valToPos(layer.x[i + 1], "x", true), plot.valToPos(layer.high[i], "y", true));
        }
      }
      context.stroke();
      context.setLineDash([]);
    },
    band(plot, context, layer, from, to) {
      context.globalAlpha = 0.35;
      this.bars(plot, context, layer, from, to);
      context.globalAlpha = 1;
      context.lineWidth = 1.3 * devicePixelRatio;
      context.beginPath();
      for (let i = from; i < to; i++) {
        const x = plot.valToPos(layer.x[i], "x", true), y = plot.valToPos(layer.mean[i], "y", true);
        if (i === from) context.moveTo(x, y); else context.lineTo(x, y);
      }
      context.stroke();
    },
    blocks(plot, context, layer, from, to) {
      const floor = plot.valToPos(0, "y", true);
      for (let i = from; i < to; i++) {
        const left = plot.valToPos(layer.x[i], "x", true), right = plot.valToPos(layer.x[i] + layer.low[i], "x", true);
        const top = plot.valToPos(layer.high[i], "y", true);
        // A gap between blocks that are broad enough for one.
        context.fillRect(left, top, Math.max(right - left - (right - left > 6 ? 1 : 0), 1), floor - top);
      }
    },
    marks(plot, context, layer, from, to) {
      this.bars(plot, context, layer, from, to);
      const size = 3.2 * devicePixelRatio;
      for (let i = from; i < to; i++) {
        const x = plot.valToPos(layer.x[i], "x", true), y = plot.valToPos(layer.high[i], "y", true);
        context.beginPath();
        context.moveTo(x, y - size);
        context.lineTo(x + size, y + size);
        context.lineTo(x - size, y + size);
        context.fill();
      }
    },
  };

  function draw(plot, chart) {
    const { ctx: context } = plot, { left, top, width, height } = plot.bbox;
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    for (const layer of layersOf(chart).filter(shown)) {
      const [from, to] = visible(layer, plot.scales.x.min, plot.scales.x.max);
      context.strokeStyle = context.fillStyle = colour(layer.colour);
      drawing[layer.kind](plot, context, layer, from, to);
    }
    context.restore();
  }

  const units = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  function short(value) {
    const [factor, prefix] = units.find(([size]) => Math.abs(value) >= size) ?? [1, ""];
    return `${Number((value / factor).toPrecision(6))}${prefix && ` ${prefix}`}`;
  }
  function moment(seconds, digits) {
    if (clock === "relative") return `${seconds.toFixed(digits)} s`;
    const ns = startNs + BigInt(Math.round(seconds * 1e9));
    const whole = new Date(Number(ns / 1000000n)).toISOString().slice(11, 19);
    return `${whole}${digits ? `.${(ns % 1000000000n).toString().padStart(9, "0").slice(0, digits)}` : ""}`;
  }
  const digitsFor = (step) => Math.min(9, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
  // As many digits as tell multiples of `step` apart: three for 0.025.
  function exactDigits(step) {
    let digits = digitsFor(step);
    while (digits < 9 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-6) digits += 1;
    return digits;
  }

  function options(chart, width) {
    const axis = { stroke: () => colour("soft"), grid: { stroke: () => colour("grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    return {
      width, height: heights[chart], legend: { show: false }, padding: [8, 12, 0, 0],
      cursor: {
        y: false, points: { show: false }, drag: { x: true, y: false, setScale: true },
        sync: { key: "time", scales: ["x", null], filters: { pub: (type) => type !== "mousedown" && type !== "mouseup" } },
      },
      scales: {
        x: { time: false, range: (_, min, max) => [min, max] },
        // Set after x: while x is being set a range of y would be made for the part shown before.
        y: { auto: false, range: (_, min, max) => [min ?? 0, max ?? 1] },
      },
      axes: [
        { ...axis, size: 34, space: clock === "relative" ? 70 : 110, values: (_, splits, __, ___, step) => splits.map((s) => moment(s, exactDigits(step))) },
        { ...axis, size: 62, values: (_, splits) => splits.map(short) },
      ],
      series: [{}, { show: true, paths: () => null, points: { show: false } }],
      hooks: {
        draw: [(plot) => draw(plot, chart)],
        setScale: [(plot, key) => {
          if (key !== "x") return;
          // A scale that is set while another one is being set is forgotten.
          queueMicrotask(() => { if (plots.get(chart) === plot) fit(plot, chart); });
          follow(plot.scales.x.min, plot.scales.x.max);
        }],
        ready: [(plot) => {
          plot.over.addEventListener("mouseenter", () => { pointed = plot; });
          plot.over.addEventListener("mouseleave", () => { pointed = null; });
        }],
        setCursor: [(plot) => { if (plot === pointed || (!pointed && plot.cursor.event)) point(plot, chart); }],
      },
    };
  }

  function fit(plot, chart) {
    const { min, max, beyond } = extent(chart, plot.scales.x.min, plot.scales.x.max);
    plot.setScale("y", { min, max });
    for (const note of document.querySelectorAll(`#graph-${chart} .beyond`)) note.hidden = !beyond;
  }

  function follow(min, max) {
    if (min === range[0] && max === range[1]) return;
    range = [min, max];
    for (const plot of plots.values()) {
      if (plot.scales.x.min !== min || plot.scales.x.max !== max) plot.setScale("x", { min, max });
    }
  }

  function point(plot, chart) {
    const out = document.getElementById("cursor");
    if (plot.cursor.left < 0) { out.textContent = ""; return; }
    const time = plot.posToVal(plot.cursor.left, "x"), near = (range[1] - range[0]) / plot.width * 6;
    const parts = [moment(time, digitsFor((range[1] - range[0]) / 2000))];
    for (const layer of layersOf(chart).filter(shown)) {
      let i = firstAt(layer.x, time);
      if (layer.kind === "line" || layer.kind === "blocks") i = layer.x[i] === time ? i : i - 1;
      else if (i === layer.x.length || (i > 0 && time - layer.x[i - 1] < layer.x[i] - time)) i -= 1;
      if (i < 0 || (layer.kind !== "line" && layer.kind !== "blocks" && Math.abs(layer.x[i] - time) > near)) continue;
      if (layer.kind === "blocks" && time > layer.x[i] + layer.low[i]) continue;
      parts.push(`${layer.name} ${short(layer.mean ? layer.mean[i] : layer.high[i])}`);
    }
    out.textContent = parts.join(" · ");
  }

  function legend(chart) {
    const place = document.querySelector(`#graph-${chart} .legend`);
    place.replaceChildren(...layersOf(chart).map((layer) => {
      const label = document.createElement("label"), box = document.createElement("input");
      const mark = document.createElement("b"), text = document.createElement("span");
      const key = `${chart}/${layer.name}`;
      box.type = "checkbox";
      box.checked = !hidden.has(key);
      mark.className = layer.colour === "edge" ? "dashed" : layer.kind;
      label.style.setProperty("--mark", `var(--${layer.colour})`);
      const number = layer.kind === "marks" || layer.leftOut ? ` (${layer.x.length.toLocaleString("en")}${layer.leftOut ? ` of ${(layer.x.length + layer.leftOut).toLocaleString("en")}` : ""})` : "";
      text.textContent = layer.name + number;
      box.addEventListener("change", () => {
        if (box.checked) hidden.delete(key); else hidden.add(key);
        const plot = plots.get(chart);
        fit(plot, chart);
        plot.redraw(false);
      });
      label.append(box, mark, text);
      if (layer.colour === "edge") {
        const note = document.createElement("i");
        note.className = "beyond";
        note.textContent = "far above";
        note.hidden = true;
        label.append(note);
      }
      return label;
    }));
  }

  function show() {
    for (const plot of plots.values()) { sync.unsub(plot); plot.destroy(); }
    plots.clear();
    pointed = null;
    for (const chart of charts) {
      const card = document.getElementById(`graph-${chart}`), place = card.querySelector(".canvas");
      const empty = layersOf(chart).every((layer) => layer.x.length < 2);
      card.querySelector(".missing").hidden = !empty;
      for (const part of card.querySelectorAll(".legend, .canvas")) part.hidden = empty;
      if (empty) continue;
      legend(chart);
      const plot = new uPlot(options(chart, place.clientWidth), [whole, [null, null]], place);
      plots.set(chart, plot);
      plot.setScale("x", { min: range[0], max: range[1] });
    }
  }

  const steps = {
    left: (min, max) => [min - (max - min) / 4, max - (max - min) / 4],
    right: (min, max) => [min + (max - min) / 4, max + (max - min) / 4],
    in: (min, max) => [min + (max - min) / 4, max - (max - min) / 4],
    out: (min, max) => [min - (max - min) / 2, max + (max - min) / 2],
    all: () => whole,
  };
  document.querySelector(".steps").addEventListener("click", (event) => {
    const step = steps[event.target.dataset?.step];
    if (!step) return;
    let [min, max] = step(...range);
    if (max - min >= whole[1] - whole[0]) [min, max] = whole;
    else if (min < whole[0]) [min, max] = [whole[0], whole[0] + max - min];
    else if (max > whole[1]) [min, max] = [whole[1] - (max - min), whole[1]];
    follow(min, max);
  });
  for (const input of document.querySelectorAll("[name=direction]")) {
    input.addEventListener("change", () => { direction = input.value; show(); });
  }
  for (const input of document.querySelectorAll("[name=clock]")) {
    input.addEventListener("change", () => { clock = input.value; show(); });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const plot of plots.values()) plot.redraw(false); });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    for (const plot of plots.values()) plot.setSize({ width: plot.root.parentElement.clientWidth, height: plot.height });
  });
  show();
})();
