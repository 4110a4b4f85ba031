/** Comma-separated names as a list; empty ones are dropped. */
export function toNames(text: string) {
  return text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}
