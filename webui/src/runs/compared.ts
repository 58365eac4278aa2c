/** Where the page of a comparison gets its data. */

export const addressOfRun = (id: string) => `runs/${encodeURIComponent(id)}`;

/** The comparison of the runs `after` with `before` and the runs `beside` it. */
export function addressOfComparison([before, ...beside]: string[], after: string[]): string {
  const query = new URLSearchParams([...beside.map((id) => ["beside", id]), ...after.map((id) => ["after", id])]);
  return `${addressOfRun(before!)}/compared?${query}`;
}

/** Kinds of runs with verdicts, as IDs tell them. */
const JUDGED = /-(profile|trial)-[0-9a-f]+$/;

/** All that a comparison of these runs, one by one, needs. */
export function addresses([before, ...others]: string[]): string[] {
  const compared = others.filter((id) => JUDGED.test(id)).map((id) => addressOfComparison([before!], [id]));
  return [...compared, ...[before!, ...others].map(addressOfRun)];
}
