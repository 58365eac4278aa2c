/** What the service answers, and how it is asked. */
import type { Axis } from "./transfers/axis";

export interface Session {
  admitted: boolean;
  /** Has this browser a session, which it can end? */
  logged_in: boolean;
  version: string;
  most_upload_bytes: number;
  most_transfer_s: number;
  /** How long data is kept, in a sentence. */
  kept: string;
  may_run: boolean;
  /** May users watch connections of the service's host? */
  may_watch: boolean;
  /** May browsers test their connection? */
  tests: boolean;
  /** The service may not write to its store. */
  read_only: boolean;
  /** Is there zone management? */
  voice: boolean;
  /** The address of the host of this browser; empty where the service runs on the same one. */
  browser: string;
}
export interface Table {
  caption: string;
  columns: string[];
  rows: string[][];
  right: number[];
}
export interface RunLine {
  run_id: string;
  kind: string;
  status: string;
  created: string;
  name: string;
  star: boolean;
  tags: string[];
  device: string;
  simulated: boolean;
  problem: string;
  conclusion: string;
  /** Is there a small chart of it? */
  sketch: boolean;
}
/** A part of the list of runs. */
export interface RunPage {
  runs: RunLine[];
  /** How many fit the search, and how many there are in all. */
  found: number;
  total: number;
  /** How many of the runs are not read yet, or lack what they found: it is known when they are asked for again. */
  unanswered: number;
  /** What there is to choose from. */
  kinds: string[];
  statuses: string[];
  devices: string[];
  tags: string[];
}
/** What people say about a run. */
export interface RunLabel {
  name: string;
  star: boolean;
  note: string;
  tags: string[];
}
export interface RunDetails {
  run_id: string;
  kind: string;
  name: string;
  simulated: boolean;
  status: string;
  created: string;
  device: string;
  conclusion: string;
  label: RunLabel;
  /** What repeats it in a terminal; a scenario can also be started here. */
  command: string;
  startable: boolean;
  size_bytes: number;
  tables: Table[];
  report: "ready" | "possible" | "none";
  /** Are there verdicts on runs of this kind? */
  comparable: boolean;
  /** It was stopped from this page, which may go on with it. */
  resumable: boolean;
}
/** An attempt as a point of a chart. */
export interface Point {
  series: string;
  rate_pps: number | null;
  delay_ns: number | null;
  loss: number | null;
  /** Why it does not count; empty if it does. */
  invalid: string;
}
/** A worker of a campaign as it was last heard of. */
export interface Worker {
  name: string;
  tags: string[];
  activity: "working" | "idle" | "unsuitable" | "quarantined" | "gone";
  /** Why it is unsuitable or quarantined. */
  why: string;
  /** Which step it is at; empty for none. */
  doing: string;
  /** Trials of this step. */
  done: number;
  total: number;
  for: string;
  lease_left: string;
  /** What the run has of it. */
  steps: number;
  failed: number;
  trials: number;
  heard_s: number;
}
/** The steps of a campaign or a sweep that goes on, and its workers, as they were `age_s` ago. */
export interface Work {
  age_s: number;
  done: number;
  failed: number;
  underway: number;
  waiting: number;
  left: string;
  /** What a step is called. */
  items: "step" | "simulation";
  workers: Worker[];
}
/** A run while it is running. */
export interface Live {
  status: string;
  created: string;
  /** How long all of it should take. */
  expected_s: number | null;
  points: Point[];
  left_out: number;
  valid: number;
  /** Does this service carry it out? Then it tells its progress. */
  held: boolean;
  /** May this page interrupt it, although another process carries it out? */
  stoppable: boolean;
  /** Only of a campaign or a sweep. */
  work: Work | null;
  title: string;
  done: number;
  total: number;
  what: string;
  left: string;
}
/** How much a quantity changed, as shares; null where that is not known. */
export interface Difference {
  title: string;
  verdict: string;
  text: string;
  change: number | null;
  low: number | null;
  high: number | null;
  margin: number | null;
}
export interface Comparison {
  verdict: string;
  simulated: boolean;
  headline: string;
  conclusion: string;
  differences: Difference[];
  notes: string[];
  tables: Table[];
}
export interface Measurement {
  data_id: string;
  kind: "capture" | "transfer" | "scenario";
  name: string;
  created: string;
  stage: "receiving" | "queued" | "working" | "ready" | "stopped" | "failed";
  message: string;
  size_bytes: number;
  waiting: number;
  facts: { conclusion?: string; asked?: Asked };
}
export interface ConnectionLine {
  id: number;
  cells: string[];
  sort: (string | number)[];
  conclusion: string;
}
export interface Capture {
  conclusion: string;
  cautions: string[];
  columns: string[];
  connections: ConnectionLine[];
  left_out: number;
  /** The course of the worst streams of voice. */
  voice: Axis | null;
  others: Table[];
}
export type Side = "a" | "b";
export interface Connection {
  id: number;
  ends: [string, string];
  conclusion: string;
  conclusions: Record<Side, string>;
  busier: Side;
  tiles: { label: string; value: string; note: string }[];
  facts: [string, string][];
  sheet: Table;
  start_ns: string;
  from: number;
  to: number;
  terms: [string, string][];
}
/** Why a connection was not faster; the sentence is empty where too little was captured to tell. */
export interface Why {
  sentence: string;
  tables: Table[];
  remarks: string[];
}
/** The same of a connection in a capture, with what to change, and when each cause was the limit. */
export interface Reasons extends Why {
  remedy: string;
  strip: PackedLayer[];
}
/** The same of a test, with captures from each place that saw it, and what they show compared. */
export interface Explained extends Why {
  ends: string;
  compared?: Table[];
  places?: (Why & { from: string })[];
}
export interface PackedLayer {
  chart: string;
  kind: "bars" | "line" | "band" | "blocks" | "marks";
  name: string;
  colour: string;
  leftOut: number;
  x: string;
  low: string;
  high: string;
  mean?: string;
}
export interface Asked {
  host: string;
  port: number;
  token?: string;
  /** Empty: the host of the service. */
  client?: string;
  client_port?: number;
  client_token?: string;
  direction: "up" | "down" | "both";
  connections: number;
  lasts_s: number | null;
  total_bytes: number | null;
  interval_ms: number;
  rate: string;
  congestion: string;
  /** Bytes per write, and the socket buffer of this end, with units; empty: the defaults. */
  block?: string;
  buffer?: string;
  /** Record the packets at both ends, where that is allowed. */
  capture: boolean;
}
export interface Interval {
  direction: "up" | "down";
  from_s: number;
  to_s: number;
  throughput_bps: number;
  retransmissions: number | null;
  rtt_us: number | null;
  cwnd_bytes: number | null;
  /** Of tests that were made before there was this, nothing. */
  flight_bytes?: number | null;
  unsent_bytes?: number | null;
  window_bytes?: number | null;
  delivery_bps?: number | null;
  latency_p99_ns?: number | null;
}
export interface Result {
  result?: { directions: { throughput_bps: number; /** Least, mean and greatest. */ rtt_us: [number, number, number] | null }[] };
  stage: Measurement["stage"];
  message: string;
  conclusion?: string;
  notes?: string[];
  tables?: Table[];
  /** About the last table; empty where there is nothing to say. */
  caution?: string;
  /** By connection why it was not faster; those of too little data are left out. */
  why?: Explained[];
  /** Why the captures have no part in that; empty where they have, or where there are none. */
  unread?: string;
  /** Can all sources be seen side by side? */
  on_one_axis?: boolean;
  /** Why nobody can tell. */
  unexplained?: string;
  /** By end: the capture that was made, or why there is none. */
  captures?: { where: string; data_id: string | null; packets: string | null; why_not: string | null; missing?: string[] }[];
}

export type Lab = "netns" | "sim";
/** A scenario that comes with Weir: its file as `text`. */
export interface Ready {
  name: string;
  about: string;
  text: string;
}
/** How far a scenario is, or what came of it. */
export interface Told {
  stage: Measurement["stage"];
  waiting: number;
  title: string;
  done: number;
  total: number;
  what: string;
  left: string;
  notes: string[];
  run_id: string;
  message: string;
  conclusion: string;
  remark: string;
  tables: Table[];
  problem: string;
}

/** The service refuses, or cannot be reached; the message is for the user. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly status: number,
    /** All that the service says of it. */
    readonly body: unknown = null,
  ) {
    super(message);
  }
}

export const UNREACHABLE = "The service cannot be reached. Is weir web still running?";

/** Called when the service asks for its token. */
export const onToken: { ask: () => void } = { ask: () => {} };

/** The version of the service: what is kept of another one must not be used. */
export const service = { version: "" };

const early = new Map<string, Promise<unknown>>();

/** Ask for what a part of the page will ask for as soon as it is there. */
export function askEarly(path: string): void {
  const asked = ask(path);
  early.set(path, asked);
  // Whoever needs it asks again, and is told.
  asked.catch(() => early.delete(path));
}

export async function ask<T>(path: string, options: RequestInit = {}): Promise<T> {
  const asked = early.get(path);
  if (asked) {
    early.delete(path);
    return (await asked) as T;
  }
  const response = await reach(path, options);
  if (response.ok) return (await response.json()) as T;
  throw failure(response.status, await response.text());
}

/** A browser ends requests when an interface of its machine comes or goes: what only reads is asked for once more. */
async function reach(path: string, options: RequestInit, tries = options.method ? 1 : 2): Promise<Response> {
  try {
    return await fetch(`api/${path}`, options);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    if (tries > 1) return reach(path, options, tries - 1);
    throw new Failure(UNREACHABLE, 0);
  }
}

export function failure(status: number, text: string): Failure {
  if (status === 401) onToken.ask();
  try {
    const body = JSON.parse(text);
    return new Failure(body.error.message, status, body);
  } catch {
    return new Failure(`The service answers with an error (${status}).`, status);
  }
}

export function post<T>(path: string, body: unknown = {}, headers: Record<string, string> = {}): Promise<T> {
  return ask<T>(path, { method: "POST", headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(body) });
}

/** Send a file as it is; `progress` gets the share that is sent. */
export function upload(file: File, progress: (share: number) => void): Promise<{ data_id: string }> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `api/captures?name=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = (event) => progress(event.total ? event.loaded / event.total : 0);
    request.onload = () =>
      request.status === 201 ? resolve(JSON.parse(request.responseText)) : reject(failure(request.status, request.responseText));
    request.onerror = () => reject(new Failure("The upload broke off. Is the file too large, or weir web gone?", 0));
    request.send(file);
  });
}
