import { codeOf } from "@/lib/errors";

const changedByAnother = "Another administrator has changed this since you opened it.";

/** A row could not be written: it is no longer the one that was loaded, or is gone, or may no longer be written. */
export class StaleRowError extends Error {
  override name = "StaleRowError";
  constructor(reason = changedByAnother) {
    super(reason);
  }
}

/**
 * For a write that returns its row. A policy does not refuse an update or a delete, it hides the row, and a filter on
 * `updated_at` hides what is newer: without this a toast would tell of a success that never was.
 */
export function requireRow<Row>(row: Row | null, reason?: string): Row {
  if (row === null) throw new StaleRowError(reason);
  return row;
}

/** For a first save: the same row was made by another person in the meantime. */
export function staleIfTaken(error: unknown): never {
  throw codeOf(error) === "23505" ? new StaleRowError() : error;
}
