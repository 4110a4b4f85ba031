import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { visitor } from "./clients";

/**
 * The methods and options of postgrest-js, and those used since this module was loaded.
 *
 * Methods come from the package's type declarations, options from the methods' source, where they are destructured by
 * name. Nothing is listed by hand, so a new version of the client is covered without changes here.
 */
export const all = new Set<string>();
export const used = new Set<string>();

type Method = (this: unknown, ...given: unknown[]) => unknown;
type Prototype = Record<string, Method>;

/** The three builders are layers of one object and override each other's methods. */
const layers: Record<string, string> = {
  PostgrestClient: "client",
  PostgrestQueryBuilder: "table",
  PostgrestFilterBuilder: "query",
  PostgrestTransformBuilder: "query",
  PostgrestBuilder: "query",
};

/** Public methods by class: lines of two spaces, a name and its parameters. */
function declared(): Map<string, Set<string>> {
  const outer = createRequire(import.meta.url);
  const inner = createRequire(outer.resolve("@supabase/supabase-js"));
  const file = join(dirname(inner.resolve("@supabase/postgrest-js")), "index.d.mts");
  const methods = new Map<string, Set<string>>();
  let current: Set<string> | undefined;
  for (const line of readFileSync(file, "utf8").split("\n")) {
    const opened = /^declare (?:abstract )?class (\w+)/.exec(line);
    if (opened?.[1] !== undefined) {
      current = new Set();
      methods.set(opened[1], current);
    } else if (line === "}") {
      current = undefined;
    }
    const method = /^ {2}(\w+)[<(]/.exec(line)?.[1];
    if (method !== undefined && method !== "constructor") current?.add(method);
  }
  return methods;
}

/** `{ ascending = true, nullsFirst } = {}` and `options.retry` in a method's source. */
function options(method: Method): string[] {
  const text = method.toString();
  const taken = [...text.matchAll(/\{([\w\s,=."$]*)\}\s*=\s*(?:\{\}|options\b)/g)].flatMap(([, names = ""]) =>
    names.split(",").map((name) => name.split("=")[0]?.trim() ?? ""),
  );
  const read = [...text.matchAll(/\boptions\.(\w+)/g)].map(([, name = ""]) => name);
  return [...new Set([...taken, ...read])].filter((name) => name !== "");
}

function prototypes(): Map<string, Prototype> {
  const above = (value: object) => Object.getPrototypeOf(value) as Prototype;
  const client = visitor().schema("public");
  const table = client.from("samples");
  const filter = above(table.select());
  const transform = above(filter);
  return new Map([
    ["PostgrestClient", above(client)],
    ["PostgrestQueryBuilder", above(table)],
    ["PostgrestFilterBuilder", filter],
    ["PostgrestTransformBuilder", transform],
    ["PostgrestBuilder", above(transform)],
  ]);
}

const methods = declared();
for (const [name, prototype] of prototypes()) {
  for (const method of methods.get(name) ?? []) {
    const original = prototype[method];
    if (original === undefined) throw new Error(`${name}.${method} is declared and not there`);
    const key = `${layers[name]}.${method}`;
    const known = options(original);
    for (const entry of [key, ...known.map((option) => `${key} ${option}`)]) all.add(entry);
    prototype[method] = function (this: unknown, ...given: unknown[]) {
      used.add(key);
      // Options come last; a first argument is data, unless nothing else is taken.
      const last = given.length > 1 || original.length === 0 ? given.at(-1) : undefined;
      for (const option of known) {
        if (typeof last === "object" && last !== null && option in last) used.add(`${key} ${option}`);
      }
      return original.apply(this, given);
    };
  }
}
