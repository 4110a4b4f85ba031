import { replaceEqualDeep } from "@tanstack/react-query";

// While a person types, what they are typing about must not vanish from the page: a dialog goes with the row that opened it. Queries hold back the
// absence of rows as long as something is unsaved, and are fetched again afterwards.

let unsaved = 0;
/** Ids of rows that the server no longer returns. */
const heldIds = new Set<string>();
const watchers = new Set<() => void>();

function tell() {
  for (const watcher of watchers) watcher();
}

/** Something was typed that is saved nowhere; until the returned function is called. */
export function beginUnsaved() {
  unsaved += 1;
  return () => {
    unsaved -= 1;
    if (unsaved > 0 || heldIds.size === 0) return;
    heldIds.clear();
    tell();
  };
}

export const held = {
  isHolding: () => heldIds.size > 0,
  has: (id: string) => heldIds.has(id),
  watch: (changed: () => void) => {
    watchers.add(changed);
    return () => void watchers.delete(changed);
  },
};

function hold(ids: string[]) {
  for (const id of ids) heldIds.add(id);
  // Not during the update of a query.
  queueMicrotask(tell);
}

function release(id: string) {
  if (heldIds.delete(id)) queueMicrotask(tell);
}

/** For `structuralSharing` of a query of rows: those that went while something is unsaved keep their places. */
export function holdRows(before: unknown, fresh: unknown): unknown {
  if (unsaved === 0 || !isRows(before) || !isRows(fresh)) return replaceEqualDeep(before, fresh);
  const ids = new Set(fresh.map(({ id }) => id));
  const gone = before.map(({ id }) => id).filter((id) => !ids.has(id));
  if (gone.length === 0) return replaceEqualDeep(before, fresh);
  hold(gone);
  const kept = [...fresh];
  before.forEach((row, index) => {
    if (!ids.has(row.id)) kept.splice(Math.min(index, kept.length), 0, row);
  });
  return replaceEqualDeep(before, kept);
}

/** The same for a query of one row, which is null when it is gone. */
export function holdRow(before: unknown, fresh: unknown): unknown {
  if (isRow(fresh)) release(fresh.id);
  if (unsaved === 0 || fresh !== null || !isRow(before)) return replaceEqualDeep(before, fresh);
  hold([before.id]);
  return before;
}

/** The same for a value that decides what may be edited: it stays as it was. */
export function holdValue<Value>(before: Value | undefined, fresh: Value): Value {
  if (unsaved === 0 || before === undefined || before === fresh) return fresh;
  hold(["value"]);
  return before;
}

function isRow(data: unknown): data is { id: string } {
  return data !== null && typeof data === "object" && "id" in data;
}

function isRows(data: unknown): data is { id: string }[] {
  return Array.isArray(data);
}
