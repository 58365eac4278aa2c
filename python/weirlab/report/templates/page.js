"use strict";
(() => {
  const { config, light, source, figures } = JSON.parse(document.getElementById("charts").textContent);
  const views = new Map();

  // SVG, so that CSS variables colour the marks and the page can change scheme, or be printed, as it is.
  const options = {
    renderer: "svg", actions: false, defaultStyle: false, config,
    tooltip: { disableDefaultStyle: true },
  };

  async function show(element) {
    const figure = figures[element.id];
    if (!figure) return;
    try {
      const { view } = await vegaEmbed(element, figure.spec, options);
      views.set(element.id, view);
      const chosen = document.querySelector(".switch input:checked")?.value;
      if (chosen && switchable(figure)) view.signal("quantity", chosen).runAsync();
      // Vega gives the element the role of a document; its parts add nothing to the description.
      element.setAttribute("role", "img");
      element.removeAttribute("aria-roledescription");
      const drawing = element.querySelector("svg");
      if (drawing) drawing.setAttribute("aria-hidden", "true");
      element.style.minHeight = "0";
      if (zoomable(element.id)) draggable(element, view);
    } catch (error) {
      element.textContent = `This chart could not be drawn: ${error.message}`;
    }
  }

  const switchable = (figure) => figure.spec.params?.some((param) => param.name === "quantity") ?? false;

  function choose(quantity) {
    for (const input of document.querySelectorAll(".switch input")) input.checked = input.value === quantity;
    for (const [key, view] of views) {
      if (switchable(figures[key])) view.signal("quantity", quantity).runAsync();
    }
  }

  // Numeric axes have a parameter for each end; the initial values show the whole.
  function ends(key, channel) {
    const value = (end) => figures[key].spec.params?.find((param) => param.name === `${channel}_${end}`)?.value;
    return value("from") === undefined ? null : [value("from"), value("to")];
  }
  const channels = (key) => ["x", "y"].filter((channel) => ends(key, channel));
  const zoomable = (key) => channels(key).length > 0;

  // The other charts that share a horizontal axis with `key`.
  const besides = (key) => Object.keys(figures).filter((other) => other !== key && figures[key].linked && figures[other].linked === figures[key].linked);

  // `ranges` has new ends by channel; null shows the whole. Charts with the same axis follow.
  function zoom(key, ranges) {
    narrow(key, ranges);
    if (ranges && !ranges.x) return;
    for (const other of besides(key)) narrow(other, ranges && { x: ranges.x });
  }
  function narrow(key, ranges) {
    const view = views.get(key);
    if (!view) return;
    let zoomed = false;
    for (const channel of channels(key)) {
      const whole = ends(key, channel);
      const now = ranges === null ? whole : ranges[channel] ?? ["from", "to"].map((end) => view.signal(`${channel}_${end}`));
      const [from, to] = [Math.max(now[0], whole[0]), Math.min(now[1], whole[1])];
      if (!(to > from)) return;
      view.signal(`${channel}_from`, from).signal(`${channel}_to`, to);
      zoomed ||= from > whole[0] || to < whole[1];
    }
    view.signal("zoomed", zoomed).runAsync();
  }

  // Shows half or twice the range around the middle of the axis.
  function step(key, factor) {
    const view = views.get(key), ranges = {};
    if (!view) return;
    for (const channel of channels(key).slice(0, 1)) {
      const scale = view.scale(channel), [start, stop] = scale.range();
      const middle = (start + stop) / 2, half = ((stop - start) / 2) * factor;
      ranges[channel] = [scale.invert(middle - half), scale.invert(middle + half)].sort((a, b) => a - b);
    }
    zoom(key, ranges);
  }

  function draggable(element, view) {
    const key = element.id, brush = document.createElement("div");
    let begun = null;
    brush.className = "brush";
    brush.hidden = true;
    element.classList.add("zoomable");
    element.append(brush);
    if (figures[key].linked) {
      const line = document.createElement("div");
      line.className = "moment";
      line.hidden = true;
      element.append(line);
      view.planeLeft = () => plane().left;
    }

    // The position and the size of the plot area.
    function plane() {
      const [left, top] = view.origin(), outer = element.getBoundingClientRect();
      const box = element.querySelector("svg").getBoundingClientRect(), padding = view.padding();
      return {
        left: box.left - outer.left + padding.left + left, top: box.top - outer.top + padding.top + top,
        width: view.signal("width"), height: view.signal("height"),
      };
    }
    function place(event) {
      const outer = element.getBoundingClientRect(), { left, top, width, height } = plane();
      const within = (value, most) => Math.min(Math.max(value, 0), most);
      return [within(event.clientX - outer.left - left, width), within(event.clientY - outer.top - top, height)];
    }
    // A flat rectangle selects the full height.
    function dragged(from, to) {
      const flat = Math.abs(to[1] - from[1]) < 24 || !ends(key, "y");
      const level = Math.abs(to[0] - from[0]) < 6 || !ends(key, "x");
      return { x: level ? null : [from[0], to[0]], y: flat ? null : [from[1], to[1]] };
    }

    element.addEventListener("pointerdown", (event) => {
      const [x, y] = place(event), outer = element.getBoundingClientRect(), { left, top, width, height } = plane();
      const inside = event.clientX - outer.left >= left && event.clientX - outer.left <= left + width
        && event.clientY - outer.top >= top && event.clientY - outer.top <= top + height;
      if (event.button !== 0 || !inside) return;
      begun = [x, y];
      element.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    element.addEventListener("pointermove", (event) => {
      if (!begun) return;
      const { left, top, width, height } = plane(), area = dragged(begun, place(event));
      const [x0, x1] = area.x ?? [0, width], [y0, y1] = area.y ?? [0, height];
      brush.hidden = !area.x && !area.y;
      brush.style.left = `${left + Math.min(x0, x1)}px`;
      brush.style.top = `${top + Math.min(y0, y1)}px`;
      brush.style.width = `${Math.abs(x1 - x0)}px`;
      brush.style.height = `${Math.abs(y1 - y0)}px`;
    });
    // A line at the pointer's time on every chart with the same axis.
    if (figures[key].linked) {
      const mark = (event) => {
        const [x] = place(event), { width } = plane(), at = view.scale("x").invert(x);
        for (const other of [key, ...besides(key)]) {
          const line = document.getElementById(other).querySelector(".moment"), beside = views.get(other);
          if (line) line.style.left = `${beside.planeLeft() + (other === key ? x : beside.scale("x")(at))}px`;
          if (line) line.hidden = x <= 0 || x >= width;
        }
      };
      element.addEventListener("pointermove", mark);
      element.addEventListener("pointerleave", () => {
        for (const line of document.querySelectorAll(".moment")) line.hidden = true;
      });
    }
    const end = (event) => {
      const from = begun;
      begun = null;
      brush.hidden = true;
      if (!from || event.type === "pointercancel") return;
      const ranges = {};
      for (const [channel, area] of Object.entries(dragged(from, place(event)))) {
        if (area) ranges[channel] = area.map((at) => view.scale(channel).invert(at)).sort((a, b) => a - b);
      }
      if (Object.keys(ranges).length) zoom(key, ranges);
    };
    element.addEventListener("pointerup", end);
    element.addEventListener("pointercancel", end);
    element.addEventListener("dblclick", () => zoom(key, null));
  }

  function rowsOf(spec) {
    const own = spec.data ?? spec.layer?.find((layer) => layer.data)?.data;
    if (own?.name && spec.datasets) return spec.datasets[own.name];
    return own?.values ?? [];
  }

  function csv(rows) {
    const names = Object.keys(rows[0] ?? {});
    const cell = (value) => (/[",\n]/.test(String(value ?? "")) ? `"${String(value).replaceAll('"', '""')}"` : (value ?? ""));
    return [names.join(","), ...rows.map((row) => names.map((name) => cell(row[name])).join(","))].join("\n") + "\n";
  }

  // Saved images contain the title and the light colours as values, because no CSS applies outside this page.
  async function image(figure, format) {
    const plain = JSON.parse(
      JSON.stringify({ ...figure.spec, config }).replace(/var\(--([a-z0-9-]+)\)/g, (all, name) => light[name] ?? all),
    );
    plain.width = 760;
    plain.config.background = light.paper;
    plain.config.padding = 16;
    const chosen = switchable(figure) ? document.querySelector(".switch input:checked") : null;
    const subtitle = [figure.panel, chosen ? `shown: ${chosen.parentElement.textContent.trim().toLowerCase()}` : "", source];
    plain.title = { text: wrapped(figure.title, 72), subtitle: wrapped(subtitle.filter(Boolean).join("; "), 100) };
    const place = document.createElement("div");
    const { view } = await vegaEmbed(place, plain, { actions: false, defaultStyle: false, renderer: "none" });
    if (chosen) await view.signal("quantity", chosen.value).runAsync();
    const url = await view.toImageURL(format, 2);
    view.finalize();
    return url;
  }

  function wrapped(text, width) {
    const lines = [""];
    for (const word of text.split(" ")) {
      if (lines.at(-1).length + word.length >= width) lines.push("");
      lines[lines.length - 1] = `${lines.at(-1)} ${word}`.trim();
    }
    return lines;
  }

  async function download(key, format) {
    const figure = figures[key];
    const link = document.createElement("a");
    link.download = `${key}.${format}`;
    link.href = format === "csv"
      ? URL.createObjectURL(new Blob([csv(rowsOf(figure.spec))], { type: "text/csv" }))
      : await image(figure, format);
    link.click();
  }

  for (const input of document.querySelectorAll(".switch input")) {
    input.addEventListener("change", () => choose(input.value));
  }
  const steps = {
    in: (key) => step(key, 0.5),
    out: (key) => step(key, 2),
    whole: (key) => zoom(key, null),
  };
  for (const bar of document.querySelectorAll(".tools")) {
    bar.addEventListener("click", (event) => {
      const { format, zoom: wanted } = event.target.dataset ?? {};
      if (format) download(bar.dataset.figure, format);
      if (wanted) steps[wanted](bar.dataset.figure);
    });
  }
  // A chart takes its width from the page, which has none for it while it is folded away.
  function showOpen(element) {
    const fold = element.closest("details:not([open])");
    if (fold) fold.addEventListener("toggle", () => showOpen(element), { once: true });
    else show(element);
  }
  for (const element of document.querySelectorAll(".plot")) showOpen(element);
})();
