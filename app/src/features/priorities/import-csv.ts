import { toCsv } from "@/lib/csv";
import { prioritySchema } from "./schema";

export interface ImportedPriority {
  title: string;
  description: string;
}

export type ParsedImport = { errors: string[] } | { priorities: ImportedPriority[] };

export const templateName = "priorities_template.csv";
export const template = toCsv([
  ["title", "description"],
  ["Open four neighborhood hubs", "Halls within 15 minutes' walk"],
]);

const requiredHeaders = ["title", "description"];
/** Of one file. */
export const fileLimit = 200;
/** Of a plan; the database has the same (`priorities_at_most_500_per_plan`). */
export const planLimit = 500;

/**
 * Reads the lines of a CSV file. A plain split at commas, or at semicolons or tabs where the header has those, without
 * quotes; what is beyond the last header belongs to the last value. Any error is an error of the whole file. `planHas` is
 * how many priorities the plan has already.
 */
export function parsePriorities(text: string, planHas = 0): ParsedImport {
  const lines = text
    .split(/\r\n|\r|\n/)
    .map((line, index) => ({ line, number: index + 1 }))
    .filter(({ line }) => line.trim() !== "");
  const [header, ...rows] = lines;
  if (!header || rows.length === 0) return { errors: ["CSV file is empty or only contains headers"] };
  if (rows.length > fileLimit) {
    return { errors: [`The file has ${counted(rows.length)}; at most ${fileLimit} can be imported at once`] };
  }
  if (planHas + rows.length > planLimit) {
    const room = Math.max(0, planLimit - planHas);
    return { errors: [`The file has ${counted(rows.length)}; this plan has room for ${room} (at most ${planLimit})`] };
  }

  const separator = [",", ";", "\t"].find((candidate) => header.line.includes(candidate)) ?? ",";
  const headers = header.line.split(separator).map((name) => name.trim().toLowerCase());
  const missing = requiredHeaders.filter((name) => !headers.includes(name));
  if (missing.length > 0) return { errors: missing.map((name) => `Missing required header: ${name}`) };

  const errors: string[] = [];
  const priorities: ImportedPriority[] = [];
  for (const { line, number } of rows) {
    const parts = line.split(separator);
    if (parts.length < headers.length) {
      errors.push(`Line ${number}: Not enough values`);
      continue;
    }
    const values = [...parts.slice(0, headers.length - 1), parts.slice(headers.length - 1).join(separator)];
    const cell = (name: string) => values[headers.indexOf(name)]?.trim() ?? "";
    const priority = { title: cell("title"), description: cell("description") };
    const checked = prioritySchema.safeParse(priority);
    if (priority.title === "") errors.push(`Line ${number}: Title is required`);
    else if (!checked.success) errors.push(`Line ${number}: ${checked.error.issues[0]?.message ?? "is not valid"}`);
    else priorities.push(priority);
  }
  return errors.length > 0 ? { errors } : { priorities };
}

export function counted(priorities: number) {
  return priorities === 1 ? "1 priority" : `${priorities.toLocaleString("en-US")} priorities`;
}
