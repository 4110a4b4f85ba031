/** Comma-separated names as a list; empty ones are dropped. */
export function toNames(text: string) {
  return text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}

/** The user ids of those names that are members', or their addresses. Of two members of one name, both are meant. */
export function membersAmong(names: string[], members: { id: string; name: string; email: string | null }[]) {
  const wanted = new Set(names.map((name) => name.toLocaleLowerCase()));
  const isWanted = (text: string | null) => text !== null && wanted.has(text.toLocaleLowerCase());
  return members.filter(({ name, email }) => isWanted(name) || isWanted(email)).map(({ id }) => id);
}

/** The name that is being typed at the end of a list of names: what is before it, and it. */
export function lastName(text: string): { before: string; typed: string } {
  const comma = text.lastIndexOf(",") + 1;
  return { before: text.slice(0, comma), typed: text.slice(comma).trim() };
}
