import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { requireRow } from "@/lib/stale-row";
import { toast } from "@/lib/toast";

export const deletedItemsKey = (planId: string) => ["deleted-items", planId] as const;

interface DeletedItem {
  /** That of the deleted row. */
  id: string;
  kind: "priority" | "task";
}

/** Takes a priority, with its tasks, or a task out of the plan's bin. */
export function useRestoreItem(planId: string) {
  return useChange({
    done: (_, { kind }) => toast.success(kind === "task" ? "Task restored" : "Priority restored"),
    failed: "It could not be restored",
    refetches: [["priorities"], ["tasks"], ["comments", planId], deletedItemsKey(planId)],
    change: async ({ id, kind }: DeletedItem) => {
      const { data } = await basalt.rpc("restore_plan_item", { item: id }).throwOnError();
      requireRow(data[0] ?? null, `This ${kind} is no longer in the bin.`);
    },
  });
}
