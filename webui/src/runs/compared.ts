/** Where the page of a comparison gets its data. */

export const addressOfRun = (id: string) => `runs/${encodeURIComponent(id)}`;

/** The comparison of the runs `after` with `before` and the runs `beside` it. */
export function addressOfComparison([before, ...beside]: string[], after: string[]): string {
  const query = new URLSearchParams([...beside.map((id) => ["beside", id]), ...after.map((id) => ["after", id])]);
  return `${addressOfRun(before!)}/compared?${query}`;
}

/** All that a comparison of these runs, one by one, needs. */
export function addresses([before, ...others]: string[]): string[] {
  return [...others.map((id) => addressOfComparison([before!], [id])), ...[before!, ...others].map(addressOfRun)];
}
