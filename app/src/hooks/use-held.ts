import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";
import { held } from "@/lib/held";

/** Whether this row is shown although the server no longer returns it (`lib/held`). Fetches everything again when nothing is held any more. */
export function useHeld(id: string) {
  const queryClient = useQueryClient();
  const isHolding = useSyncExternalStore(held.watch, held.isHolding);
  useEffect(() => {
    if (isHolding) return () => void queryClient.invalidateQueries();
  }, [isHolding, queryClient]);
  return useSyncExternalStore(held.watch, () => held.has(id));
}
