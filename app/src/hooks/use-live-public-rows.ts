import { type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import type { Table } from "@/lib/basalt";

/** Visitors who leave at once need no client. */
const patienceMs = 4000;

/** Rows as old as this are fetched again when the page joins the channel: they may have changed since. */
const outdatedMs = 30_000;

/** As `useTableInvalidation`, for pages that do without the client at first: it comes when the page has long been there. */
export function useLivePublicRows(table: Table, queryKey: QueryKey) {
  const queryClient = useQueryClient();
  const keyJson = JSON.stringify(queryKey);
  useEffect(() => {
    const queryKey = JSON.parse(keyJson) as QueryKey;
    let stop: (() => void) | null = null;
    let gone = false;
    let joinedBefore = false;
    const changed = () => void queryClient.invalidateQueries({ queryKey });
    // The page has just read these rows: a second read of each table for each visitor would nearly always find the same.
    const joined = () => {
      const reads = queryClient.getQueryCache().findAll({ queryKey });
      const readAt = Math.min(...reads.map(({ state }) => state.dataUpdatedAt));
      if (joinedBefore || Date.now() - readAt > outdatedMs) changed();
      joinedBefore = true;
    };
    const timer = setTimeout(() => {
      import("@/lib/live").then(
        ({ watchTables }) => {
          if (!gone) stop = watchTables([{ table, changed, joined }]);
        },
        // The page shows what it has; it is only not live.
        () => undefined,
      );
    }, patienceMs);
    return () => {
      gone = true;
      clearTimeout(timer);
      stop?.();
    };
  }, [queryClient, keyJson, table]);
}
