/** The story of a report, as parts for the page: answers, tiles and chapters, by the tab that shows them. */
import { failure, post } from "../api";

export const TABS = ["Details", "Predictions", "Setup"] as const;
export type Tab = (typeof TABS)[number];

export interface StoryFigure {
  title: string;
  spec: Record<string, unknown> & { params?: { name: string }[] };
}
export interface Story {
  cautions: string[];
  lede: string[];
  tiles: { label: string; value: string; note: string }[];
  /** The first charts, which stand above the tabs. */
  first: Element | null;
  chapters: { key: string; tab: Tab; element: Element }[];
  config: Record<string, unknown>;
  figures: Record<string, StoryFigure>;
}

/** Where the data of the charts begin in a report. */
const CHARTS = '<script type="application/json" id="charts">';
const PREDICTIONS = /^(predict|verif|models?$|fit)/;
const SETUP = /^(setting|settings|path|notes|capture$)/;
const ELEMENTS = new Set(
  "section h2 h3 h4 p ul ol li dl dt dd div table caption thead tbody tr th td figure figcaption details summary pre code span strong em dfn br time small sub sup fieldset legend label input".split(" "),
);
const ATTRIBUTES = new Set(["id", "class", "scope", "colspan", "rowspan", "role", "aria-label", "aria-labelledby", "aria-describedby", "tabindex", "title", "name", "value", "type"]);

/** The story of the run with this `path` in the service, whose report is drawn first unless it is `ready`. */
export async function storyOf(path: string, state: "ready" | "possible"): Promise<Story> {
  if (state === "possible") await post(`${path}/report`);
  const response = await fetch(`api/${path}/report`);
  if (!response.ok) throw failure(response.status, await response.text());
  return story(await response.text());
}

/**
 * A store may hold reports from elsewhere: only text, tables and the places of charts are taken, made anew from a
 * list of elements and attributes, and the data of charts. Scripts, styles, links and pictures stay behind.
 */
export function story(html: string): Story {
  // The charts and scripts stand after the text, and are most of it. Styles are not taken: this page's policy would complain.
  const [text, rest = ""] = html.split(CHARTS, 2) as [string, string?];
  const page = new DOMParser().parseFromString(text.replace(/<style>[\s\S]*?<\/style>/g, ""), "text/html");
  const charts = JSON.parse(rest.slice(0, rest.indexOf("</script>")) || "{}") as Partial<Story>;
  const texts = (selector: string) => [...page.querySelectorAll(selector)].map((each) => (each.textContent ?? "").trim());
  const chapters = [...page.querySelectorAll("main > section")]
    .filter((each) => each.id && each.id !== "answer")
    .map((each) => ({ key: each.id, tab: tabOf(each.id), element: copied(each)! }));
  const figures = chapters.find(({ element }) => element.querySelector(".figures"))?.element.querySelector(".figures");
  let first: Element | null = null;
  if (figures) {
    first = document.createElement("div");
    if (figures.previousElementSibling?.matches(".switch")) first.append(figures.previousElementSibling);
    first.append(figures);
    // Nothing stands between them and the heading of the page.
    for (const title of first.querySelectorAll("h3")) {
      const higher = document.createElement("h2");
      higher.id = title.id;
      higher.append(...title.childNodes);
      title.replaceWith(higher);
    }
  }
  const made = (element: Element) => element.querySelector(":scope > :not(h2)");
  return {
    cautions: texts("#answer > .caution"),
    lede: texts("#answer > .lede"),
    tiles: [...page.querySelectorAll(".tile")].map((tile) => ({
      label: tile.querySelector("dt")?.textContent ?? "",
      value: tile.querySelector(".value")?.textContent ?? "",
      note: tile.querySelector(".note")?.textContent ?? "",
    })),
    first,
    chapters: chapters.filter(({ element }) => made(element)),
    config: charts.config ?? {},
    figures: charts.figures ?? {},
  };
}

function tabOf(key: string): Tab {
  return PREDICTIONS.test(key) ? "Predictions" : SETUP.test(key) ? "Setup" : "Details";
}

function copied(source: Element): Element | null {
  const name = source.localName;
  if (!ELEMENTS.has(name) || source.matches(".tools, .hint")) return source.localName === "svg" ? drawn() : null;
  if (name === "input" && source.getAttribute("type") !== "radio") return null;
  const made = document.createElement(name);
  for (const { name: attribute, value } of source.attributes) if (ATTRIBUTES.has(attribute)) made.setAttribute(attribute, value);
  if (source instanceof HTMLInputElement) (made as HTMLInputElement).checked = source.checked;
  for (const child of source.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) made.append(child.textContent ?? "");
    else if (child.nodeType === Node.ELEMENT_NODE) made.append(...[copied(child as Element)].filter((each) => each !== null));
  }
  return made;
}

function drawn(): Element {
  const note = document.createElement("p");
  note.className = "soft";
  note.textContent = "This picture is in the report.";
  return note;
}
