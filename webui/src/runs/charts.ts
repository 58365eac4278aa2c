/** The charts of a story: a worker draws them as pictures, and the one that somebody points at becomes a chart to explore. */
import type { Story } from "./story";

/** What pictures consist of; nothing else is taken from the worker, which reads what strangers may have written. */
const ELEMENTS = new Set(["svg", "g", "defs", "clipPath", "path", "rect", "line", "text", "tspan"]);
const ATTRIBUTES = new Set(
  `viewBox width height x y x2 y2 d transform fill fill-opacity stroke stroke-width stroke-opacity stroke-dasharray stroke-dashoffset
  stroke-linecap stroke-linejoin stroke-miterlimit opacity display text-anchor dominant-baseline dx dy font-family font-size font-weight font-style`.split(/\s+/),
);
const SVG = "http://www.w3.org/2000/svg";
const CANNOT = "The script for charts cannot be loaded. Is weir web still running?";

interface View {
  signal(name: string, value: unknown): View;
  runAsync(): Promise<View>;
  finalize(): void;
}
type Embed = (place: HTMLElement, spec: unknown, options: unknown) => Promise<{ view: View }>;
type Answer = { style: string } | { key: string; width: number; svg: string } | { key: string; width: number; error: string };
const refuse = () => Promise.reject(new Error("a chart loads nothing"));

/** Draw the charts whose places are in `root`, as wide as these are, with `script`; the result ends them. */
export function drawCharts(root: HTMLElement, { figures, config }: Story, script: string): () => void {
  const places = new Map([...root.querySelectorAll<HTMLElement>(".plot")].filter((place) => Object.hasOwn(figures, place.id)).map((place) => [place.id, place]));
  if (!places.size) return () => {};
  const views = new Map<string, View>();
  const widths = new Map<string, number>();
  const worker = new Worker(script);
  let signals: Record<string, string> = {};
  const switchable = (key: string) => figures[key]!.spec.params?.some(({ name }) => name === "quantity") ?? false;
  const say = (key: string, message: string) => (places.get(key)!.textContent = `This chart could not be drawn: ${message}`);

  function ask(key: string) {
    const { spec } = figures[key]!;
    worker.postMessage({ key, spec, config, width: widths.get(key), signals: switchable(key) ? signals : {} });
  }

  // A place has a width when it is shown, and another one when the screen is turned.
  const sizes = new ResizeObserver((entries) => {
    for (const { target, contentRect: { width } } of entries) {
      if (!width || widths.get(target.id) === width) continue;
      widths.set(target.id, width);
      ask(target.id);
    }
  });

  worker.onmessage = ({ data }: MessageEvent<Answer>) => {
    if ("style" in data) {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(data.style);
      // That of the charts of a page before is the same.
      document.adoptedStyleSheets = [sheet];
    } else if (!views.has(data.key) && data.width === widths.get(data.key)) {
      if ("error" in data) say(data.key, data.error);
      else places.get(data.key)!.replaceChildren(picture(data.svg, data.key));
    }
  };
  worker.onerror = () => [...places.keys()].forEach((key) => say(key, CANNOT));

  async function explore({ target }: Event) {
    const place = target as HTMLElement;
    place.removeEventListener("pointerenter", explore);
    try {
      const embed = await loaded(script);
      const fresh = document.createElement("div");
      fresh.className = "fresh";
      place.append(fresh);
      const options = {
        renderer: "svg", actions: false, defaultStyle: false, tooltip: { disableDefaultStyle: true }, config,
        // Without eval, which the page's policy forbids.
        ast: true, loader: { load: refuse, sanitize: refuse },
      };
      const { view } = await embed(fresh, figures[place.id]!.spec, options);
      for (const each of fresh.querySelectorAll("svg")) each.setAttribute("aria-hidden", "true");
      fresh.removeAttribute("role");
      fresh.removeAttribute("aria-roledescription");
      if (switchable(place.id)) for (const [name, value] of Object.entries(signals)) await view.signal(name, value).runAsync();
      views.set(place.id, view);
      sizes.unobserve(place);
      place.replaceChildren(fresh);
      fresh.classList.remove("fresh");
    } catch {
      // The picture stays.
    }
  }

  for (const place of places.values()) {
    sizes.observe(place);
    place.addEventListener("pointerenter", explore);
  }
  root.addEventListener("change", (event) => {
    const input = event.target as HTMLInputElement;
    if (!input.name?.startsWith("quantity-")) return;
    for (const each of root.querySelectorAll<HTMLInputElement>(".switch input")) each.checked = each.value === input.value;
    signals = { quantity: input.value };
    for (const key of widths.keys()) {
      if (!switchable(key)) continue;
      if (views.has(key)) void views.get(key)!.signal("quantity", input.value).runAsync();
      else ask(key);
    }
  });
  return () => {
    sizes.disconnect();
    worker.terminate();
    views.forEach((view) => view.finalize());
  };
}

/** `source`, made anew from what pictures consist of; `key` makes its IDs unique in the page. */
function picture(source: string, key: string): Element {
  const drawn = new DOMParser().parseFromString(source, "image/svg+xml").documentElement;
  const made = copied(drawn, key);
  if (!made) throw new Error("this is no picture");
  made.setAttribute("aria-hidden", "true");
  return made;
}

function copied(source: Element, key: string): Element | null {
  if (!ELEMENTS.has(source.localName)) return null;
  const made = document.createElementNS(SVG, source.localName);
  for (const { name, value } of source.attributes) {
    if (name === "id") made.id = `${key}-${value}`;
    else if (name === "clip-path") made.setAttribute(name, value.replace(/^url\(#(.*)\)$/, `url(#${key}-$1)`));
    else if (ATTRIBUTES.has(name) && !value.includes("url(")) made.setAttribute(name, value);
  }
  for (const child of source.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) made.append(child.textContent ?? "");
    else if (child.nodeType === Node.ELEMENT_NODE) made.append(...[copied(child as Element, key)].filter((each) => each !== null));
  }
  return made;
}

let loading: Promise<Embed> | undefined;

function loaded(address: string): Promise<Embed> {
  return (loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = address;
    script.onload = () => resolve((window as unknown as { vegaEmbed: Embed }).vegaEmbed);
    script.onerror = () => {
      loading = undefined;
      script.remove();
      reject(new Error(CANNOT));
    };
    document.head.append(script);
  }));
}
