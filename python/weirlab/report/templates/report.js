"use strict";
(() => {
  const { config, light, figures } = JSON.parse(document.getElementById("charts").textContent);
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
      const drawing = element.querySelector("svg");
      if (drawing) drawing.setAttribute("aria-hidden", "true");
      element.style.minHeight = "0";
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

  // Saved images carry the title and the light colours as values: outside of this page no CSS colours them.
  async function image(figure, format) {
    const plain = JSON.parse(
      JSON.stringify({ ...figure.spec, config }).replace(/var\(--([a-z0-9-]+)\)/g, (all, name) => light[name] ?? all),
    );
    plain.width = 760;
    plain.config.background = light.paper;
    plain.config.padding = 16;
    const chosen = switchable(figure) ? document.querySelector(".switch input:checked") : null;
    const shown = chosen ? `; shown: ${chosen.parentElement.textContent.trim().toLowerCase()}` : "";
    plain.title = { text: wrapped(figure.title, 72), subtitle: figure.panel + shown };
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
  for (const bar of document.querySelectorAll(".downloads")) {
    bar.addEventListener("click", (event) => {
      const format = event.target.dataset?.format;
      if (format) download(bar.dataset.figure, format);
    });
  }
  for (const element of document.querySelectorAll(".plot")) show(element);
})();
