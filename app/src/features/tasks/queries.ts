import { queryOptions } from "@tanstack/react-query";
import type { Row } from "@/lib/basalt";
import { holdRows } from "@/lib/held";
import { fetchOfPlan } from "@/lib/plan-rows";
import { withShown } from "@/lib/shown-at-once";

export type Task = Row<"tasks">;

export const taskKeys = {
  all: ["tasks"] as const,
  list: (planId: string) => [...taskKeys.all, "list", planId] as const,
  /** Of all plans, for the dashboard's cards. */
  counts: () => [...taskKeys.all, "counts"] as const,
};

/** All tasks of a plan, in the order of their priorities: its priorities, counts, timeline and print view are made of the same list. */
export const taskListQuery = (planId: string) =>
  queryOptions({
    queryKey: taskKeys.list(planId),
    queryFn: async ({ queryKey, signal }) => withShown(queryKey, await fetchOfPlan("tasks", planId, signal)),
    structuralSharing: holdRows,
    meta: { errorTitle: "Error fetching tasks" },
  });
