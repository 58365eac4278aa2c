/** What the reports of several runs of one kind have in common: their key numbers, and tables by their columns. */
import type { Table } from "../api";
import type { Story } from "./story";

/** Rows of a table beyond which it tells no more. */
const MOST = 60;

const text = (element: Element | null | undefined) => (element?.textContent ?? "").trim();

function tablesOf(story: Story): Table[] {
  const found = [...(story.first ? [story.first] : []), ...story.chapters.map(({ element }) => element)];
  return found.flatMap((element) =>
    [...element.querySelectorAll("table")].map((table) => ({
      caption: text(table.caption),
      columns: [...(table.tHead?.rows[0]?.cells ?? [])].map(text),
      rows: [...(table.tBodies[0]?.rows ?? [])].map((row) => [...row.cells].map(text)),
      right: [],
    })),
  );
}

/** Tables with a column for each of `titles`, and a row for each number that two of `stories` have at least. */
export function common(stories: Story[], titles: string[]): Table[] {
  const tiles = stories.map((one) => new Map(one.tiles.map(({ label, value, note }) => [label, note ? `${value} (${note})` : value])));
  const tables = stories.map((one) => new Map(tablesOf(one).map((table) => [`${table.caption}|${table.columns.join("|")}`, numbersOf(table)])));
  const made = [beside("Key numbers", tiles, titles)];
  for (const key of new Set(tables.flatMap((one) => [...one.keys()]))) {
    made.push(beside(key.split("|")[0]!, tables.map((one) => one.get(key) ?? new Map<string, string>()), titles));
  }
  return made.filter(({ rows }) => rows.length);
}

/** By what it is, every number of a table; as many of its first columns as tell its rows apart say of what. */
function numbersOf({ columns, rows }: Table): Map<string, string> {
  const of = (row: string[], many: number) => row.slice(0, many).join(", ");
  const lead = columns.findIndex((_, many) => many > 0 && new Set(rows.map((row) => of(row, many))).size === rows.length);
  if (lead < 0) return new Map();
  const named = (row: string[], column: string) => (rows.length > 1 ? `${of(row, lead)}: ${column}` : column);
  return new Map(rows.flatMap((row) => columns.slice(lead).map((column, i): [string, string] => [named(row, column), row[lead + i] ?? ""])));
}

function beside(caption: string, numbers: Map<string, string>[], titles: string[]): Table {
  const names = [...new Set(numbers.flatMap((one) => [...one.keys()]))].filter((name) => numbers.filter((one) => one.has(name)).length > 1);
  const rows = names.slice(0, MOST).map((name) => [name, ...numbers.map((one) => one.get(name) ?? "–")]);
  const left = names.length - rows.length;
  return { caption: left ? `${caption} (${left} more rows are in the reports)` : caption, columns: ["", ...titles], rows, right: titles.map((_, i) => i + 1) };
}
