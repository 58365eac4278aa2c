/** The API of zone management. */
import { ask, Failure, post } from "../api";

export type Value = string | number | boolean | null | undefined | Value[] | Content;
export interface Content {
  [key: string]: Value;
}
export interface User {
  name: string;
  organisation: string | null;
  administrator: boolean;
  publishes: boolean;
  form_key: string;
  vouched: boolean;
}
export interface SessionState {
  plan: string;
  user: User | null;
  refused: string;
}
export interface Field {
  name: string;
  label: string;
  help: string;
  kind: "text" | "number" | "flag" | "date" | "choice" | "words" | "pairs" | "rows" | "group";
  required: boolean;
  choices: string[];
  names: string;
  fields: Field[];
  default: Value;
}
export interface Problem {
  severity: "error" | "warning";
  code: string;
  part: string;
  item: number | null;
  field: string;
  place: string;
  reason: string;
  proposal: string;
}
export interface Part {
  key: string;
  title: string;
  one: string;
  count: number;
  errors: number;
  warnings: number;
  adds: boolean;
  fields: Field[];
}
export interface Overview {
  parts: Part[];
  names: Record<string, string[]>;
  problems: Problem[];
  /** The checks have not seen the whole plan yet. */
  checking: boolean;
}
export interface Piece {
  id: number;
  revision: number;
  name: string;
  content: Content;
  mine: boolean;
  problems: Problem[];
}
export interface Event {
  id: number;
  at: string;
  who: string;
  action: string;
  told: string;
  part: string | null;
  item: number | null;
  before: Content | null;
  after: Content | null;
  undone: boolean;
  latest: boolean;
}
export interface Made {
  event: Event;
  problems: Problem[];
}
export interface Unpublished {
  head: number;
  serial: number | null;
  events: Event[];
  ways: { numbers: string[]; before: string; after: string }[];
  untold: string;
  errors: Problem[];
  held: { organisation: string; errors: Problem[] }[];
  may: boolean;
  why_not: string;
}
export interface ServerZone {
  server: string;
  zone: string;
  serial: number | null;
  current: boolean;
}

/** Who is signed in, and what to do when nobody is any more. */
export const signedIn: { formKey: string; lost: (why: string) => void } = { formKey: "", lost: () => {} };

export function get<T>(path: string): Promise<T> {
  return watched(ask<T>(`voice/${path}`));
}

export function change<T>(path: string, body: unknown = {}): Promise<T> {
  return watched(post<T>(`voice/${path}`, body, { "X-Weir-Form": signedIn.formKey }));
}

async function watched<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (kindOf(error) === "NotSignedIn") signedIn.lost((error as Error).message);
    throw error;
  }
}

function kindOf(error: unknown): string {
  const body = error instanceof Failure ? (error.body as { error?: { kind?: string } } | null) : null;
  return body?.error?.kind ?? "";
}

/** What is wrong, if a change was refused for it. */
export function problemsOf(error: unknown): Problem[] {
  const body = error instanceof Failure ? (error.body as { problems?: Problem[] } | null) : null;
  return body?.problems ?? [];
}

/** Could the user have it nevertheless? */
export function acceptable(error: unknown): boolean {
  const body = error instanceof Failure ? (error.body as { acceptable?: boolean } | null) : null;
  return body?.acceptable ?? false;
}

/** A value in a line. */
export function shown(value: Value): string {
  if (value === null || value === undefined) return "–";
  if (Array.isArray(value)) return value.map(shown).join(typeof value[0] === "object" ? "; " : ", ");
  if (typeof value === "object") return Object.entries(value).map(([key, each]) => `${key} ${shown(each)}`).join(", ");
  return typeof value === "boolean" ? (value ? "yes" : "no") : String(value);
}

/** `value` without what is empty: such fields have no value. */
export function pruned(value: Value): Value {
  if (Array.isArray(value)) return value.map(pruned).filter((each) => each !== undefined);
  if (value !== null && typeof value === "object") {
    const kept = Object.entries(value)
      .map(([key, each]) => [key, pruned(each)] as const)
      .filter(([, each]) => !empty(each));
    return Object.fromEntries(kept);
  }
  return typeof value === "string" ? value.trim() : value;
}

function empty(value: Value): boolean {
  if (value === undefined || value === null || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}
