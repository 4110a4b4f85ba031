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
  useEffect(
    () =>
      watchTable(
        table,
        () => void queryClient.invalidateQueries({ queryKey: JSON.parse(keyJson) as QueryKey }),
        filter,
      ),
    [queryClient, table, filter, keyJson],
  );
  useEffect(() => {
    if (live) return;
    const timer = setInterval(
      () => void queryClient.invalidateQueries({ queryKey: JSON.parse(keyJson) as QueryKey }),
      pollSeconds * 1000,
    );
    return () => clearInterval(timer);
  }, [live, queryClient, keyJson]);
}
