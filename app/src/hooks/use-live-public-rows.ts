import { type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import type { Table } from "@/lib/basalt";

/** Visitors who leave at once need no client. */
const patienceMs = 4000;

/** As `useTableInvalidation`, for pages that do without the client at first: it comes when the page has long been there. */
export function useLivePublicRows(table: Table, queryKey: QueryKey) {
  const queryClient = useQueryClient();
  const keyJson = JSON.stringify(queryKey);
  useEffect(() => {
    let stop: (() => void) | null = null;
    let gone = false;
    const timer = setTimeout(() => {
      import("@/lib/live").then(
        ({ watchTables }) => {
          if (gone) return;
          const changed = () => void queryClient.invalidateQueries({ queryKey: JSON.parse(keyJson) as QueryKey });
          stop = watchTables([{ table, changed }]);
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
  }, [queryClient, table, keyJson]);
}
