/** What a view remembers in the address, so that a link shows it again: `#/data/ID?connection=3&from=1.2`. */

/** The part of the address that names the page. */
export function page(): string[] {
  return location.hash.replace(/^#\/?/, "").split("?", 1)[0]!.split("/").filter(Boolean).map(decoded);
}

/** As `decodeURIComponent` does; what a user typed, such as 100%, stays as it is. */
export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function remembered(): URLSearchParams {
  return new URLSearchParams(location.hash.split("?").slice(1).join("?"));
}

/** Change what is remembered; what is undefined or empty is forgotten. The page stays as it is. */
export function remember(changes: Record<string, string | undefined>): void {
  const words = remembered();
  for (const [key, value] of Object.entries(changes)) {
    if (value) words.set(key, value);
    else words.delete(key);
  }
  const query = words.toString();
  history.replaceState(null, "", `${location.hash.split("?", 1)[0] || "#/runs"}${query && `?${query}`}`);
}
