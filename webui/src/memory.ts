/** Measurements that this browser has seen. The service has no list: whoever knows a data ID may see its data. */
import type { Measurement } from "./api";

export interface Seen {
  data_id: string;
  kind: Measurement["kind"];
  name: string;
  created: string;
}

export const KINDS: Record<Measurement["kind"], string> = { capture: "capture", transfer: "TCP test", scenario: "scenario" };

const KEY = "weir.measurements";
const MOST = 100;

export function seen(): Seen[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept : [];
  } catch {
    return [];
  }
}

export function remember({ data_id, kind, name, created }: Seen): void {
  keep([{ data_id, kind, name, created }, ...seen().filter((each) => each.data_id !== data_id)]);
}

export function forget(data_id: string): void {
  keep(seen().filter((each) => each.data_id !== data_id));
}

function keep(list: Seen[]): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(list.slice(0, MOST)));
  } catch {
    // Private windows may refuse; then nothing is remembered.
  }
}
