/** Someone who can be mentioned. */
export interface Mentionable {
  id: string;
  name: string;
}

/** What is being typed after an `@` that begins a word, up to the caret; null elsewhere. */
export function mentionBefore(text: string, caret: number): { start: number; typed: string } | null {
  const found = /(?:^|\s)@([^\s@][^@\n]{0,40}|)$/u.exec(text.slice(0, caret));
  return found ? { start: caret - (found[1] ?? "").length - 1, typed: found[1] ?? "" } : null;
}

/** People whose name, or a part of it, begins like that. */
export function suggestionsFor<P extends Mentionable>(typed: string, people: P[], most = 6): P[] {
  const wanted = typed.toLocaleLowerCase();
  const begins = (name: string) => {
    const lower = name.toLocaleLowerCase();
    return lower.startsWith(wanted) || lower.split(/\s+/u).some((part) => part.startsWith(wanted));
  };
  return people.filter(({ name }) => begins(name)).slice(0, most);
}

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** A text as a list of words and mentions. Of two names that begin alike, the longer one is meant. */
export function partsOf<P extends Mentionable>(text: string, people: P[]): (string | P)[] {
  const named = people.filter(({ name }) => name !== "").sort((one, other) => other.name.length - one.name.length);
  if (named.length === 0) return [text];
  const pattern = new RegExp(`@(${named.map(({ name }) => escaped(name)).join("|")})(?![\\p{L}\\p{N}])`, "gu");
  const parts: (string | P)[] = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    const person = named.find(({ name }) => name === match[1]);
    if (!person) continue;
    if (match.index > end) parts.push(text.slice(end, match.index));
    parts.push(person);
    end = match.index + match[0].length;
  }
  if (end < text.length) parts.push(text.slice(end));
  return parts;
}

/** Ids of the people who are mentioned, each once. */
export function mentionedIn(text: string, people: Mentionable[]): string[] {
  return [...new Set(partsOf(text, people).flatMap((part) => (typeof part === "string" ? [] : [part.id])))];
}
