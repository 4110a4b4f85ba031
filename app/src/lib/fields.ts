// For rows read without the client: on the first page a schema library would weigh more than the page's own code.

/** A row's fields, whatever it is. */
export function fieldsOf(row: unknown): ReadonlyMap<string, unknown> {
  return new Map(row && typeof row === "object" ? Object.entries(row) : []);
}

/** A field's text; null for none, and for what is no text. */
export function textOf(fields: ReadonlyMap<string, unknown>, name: string): string | null {
  const value = fields.get(name);
  return typeof value === "string" && value.trim() !== "" ? value : null;
}

/** The texts among a list's items. */
export function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item): item is string => typeof item === "string" && item !== "") : [];
}
