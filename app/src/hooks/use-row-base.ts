import { useEffect, useState } from "react";

interface Options<Row> {
  /** The newest that is known; null while there is no row. */
  fresh: Row;
  /** Something was typed. */
  isDirty: boolean;
  /** Being saved: what comes in now may be what is being written. */
  isBusy?: boolean;
  /** What the form edits of a row: a change of anything else, a task's check-off say, is taken over unseen. */
  read?: (row: Row) => unknown;
  /** Puts a row into the form. */
  load: (row: Row) => void;
}

/**
 * The row that a form started from, so that saving can say which version it replaces. A newer one is taken over while
 * nothing was typed; after that the person decides (`stale-alert`, `conflict-note`).
 */
export function useRowBase<Row extends { updated_at: string } | null>({
  fresh,
  isDirty,
  isBusy = false,
  read = (row) => row,
  load,
}: Options<Row>) {
  const [base, setBase] = useState(fresh);
  const [freshAt, baseAt] = [fresh?.updated_at, base?.updated_at];
  const differs = freshAt !== baseAt && JSON.stringify(read(fresh)) !== JSON.stringify(read(base));

  function loadTheirs() {
    setBase(fresh);
    load(fresh);
  }

  // biome-ignore lint/correctness/useExhaustiveDependencies: only when another version has come, or the form was saved
  useEffect(() => {
    if (freshAt === baseAt || isBusy) return;
    if (!differs) setBase(fresh);
    else if (!isDirty) loadTheirs();
  }, [freshAt, baseAt, differs, isDirty, isBusy]);

  return { base, isStale: differs && isDirty && !isBusy, loadTheirs, keepMine: () => setBase(fresh) };
}
