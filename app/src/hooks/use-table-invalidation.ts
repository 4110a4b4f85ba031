import { type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { useLive } from "@/hooks/use-live";
import type { Table } from "@/lib/basalt";
import { watchTable } from "@/lib/live";

/** How often a page asks by itself while the server does not say what changes. */
export const pollSeconds = 10;

/** Refetches what a query key begins with whenever the table changes. Rights are the server's: it tells of no hidden row. */
export function useTableInvalidation(table: Table, queryKey: QueryKey, filter?: string) {
  const queryClient = useQueryClient();
  const live = useLive();
  const keyJson = JSON.stringify(queryKey);
  useEffect(() => {
    const key = JSON.parse(keyJson) as QueryKey;
    const changed = () => void queryClient.invalidateQueries({ queryKey: key });
    // Deletions of every plan arrive: only those of rows in the cache matter here.
    const deleted = (id: unknown) => {
      const cached = queryClient.getQueriesData({ queryKey: key });
      if (typeof id === "string" && JSON.stringify(cached).includes(id)) changed();
    };
    return watchTable(table, { changed, filter, deleted });
  }, [queryClient, table, filter, keyJson]);
  useEffect(() => {
    if (live) return;
    const timer = setInterval(
      () => void queryClient.invalidateQueries({ queryKey: JSON.parse(keyJson) as QueryKey }),
      pollSeconds * 1000,
    );
    return () => clearInterval(timer);
  }, [live, queryClient, keyJson]);
}
