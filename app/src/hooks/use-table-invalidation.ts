import { type QueryClient, type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { useLive } from "@/hooks/use-live";
import type { Table } from "@/lib/basalt";
import { type TableWatch, watchTables } from "@/lib/live";

/** How often a page fetches by itself while it receives no changes. */
export const pollSeconds = 10;

export interface WatchedTable {
  table: Table;
  /** Every query whose key begins with this is fetched again when the table changes. */
  queryKey: QueryKey;
  filter?: string;
}

/** What refetches the queries of each table. Rights are the server's: it sends no change of a hidden row. */
export const invalidations = (queryClient: QueryClient, tables: WatchedTable[]) =>
  tables.map(({ table, queryKey, filter }): TableWatch => {
    const changed = () => void queryClient.invalidateQueries({ queryKey });
    // Deletions of every plan arrive: only those of rows in the cache matter here.
    const deleted = (id: unknown) => {
      const cached = queryClient.getQueriesData({ queryKey });
      if (typeof id === "string" && JSON.stringify(cached).includes(id)) changed();
    };
    return { table, filter, changed, deleted };
  });

/** Refetches the tables' queries whenever the tables change, by one channel. */
export function useTableInvalidation(tables: WatchedTable[]) {
  const queryClient = useQueryClient();
  const json = JSON.stringify(tables);
  useEffect(() => watchTables(invalidations(queryClient, JSON.parse(json) as WatchedTable[])), [queryClient, json]);
  usePollUnlessLive(tables);
}

/** Refetches the tables' queries every few seconds while a channel is not joined. */
export function usePollUnlessLive(tables: WatchedTable[]) {
  const queryClient = useQueryClient();
  const live = useLive();
  const json = JSON.stringify(tables.map(({ queryKey }) => queryKey));
  useEffect(() => {
    if (live) return;
    const keys = JSON.parse(json) as QueryKey[];
    const timer = setInterval(() => {
      for (const queryKey of keys) void queryClient.invalidateQueries({ queryKey });
    }, pollSeconds * 1000);
    return () => clearInterval(timer);
  }, [live, queryClient, json]);
}
