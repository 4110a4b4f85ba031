import { queryOptions } from "@tanstack/react-query";
import type { Row } from "@/lib/basalt";
import { holdRows } from "@/lib/held";
import { fetchOfPlan } from "@/lib/plan-rows";
import { withShown } from "@/lib/shown-at-once";

export type Priority = Row<"priorities">;

export const priorityKeys = {
  all: ["priorities"] as const,
  list: (planId: string) => [...priorityKeys.all, "list", planId] as const,
  /** Of all plans, for the dashboard's cards. */
  counts: () => [...priorityKeys.all, "counts"] as const,
};

/** A plan's priorities in their order: newest first, unless they were moved or imported. */
export const priorityListQuery = (planId: string) =>
  queryOptions({
    queryKey: priorityKeys.list(planId),
    queryFn: async ({ queryKey, signal }) => withShown(queryKey, await fetchOfPlan("priorities", planId, signal)),
    structuralSharing: holdRows,
    meta: { errorTitle: "Error fetching priorities" },
  });
