import { useChange } from "@/hooks/use-change";
import { deletedItemsKey } from "@/hooks/use-restore-item";
import { basalt } from "@/lib/basalt";
import { requireRow } from "@/lib/stale-row";
import { toast } from "@/lib/toast";
import type { DeletedItem } from "./queries";

export function useDeleteItemForGood(planId: string) {
  return useChange({
    done: (_, { kind }) => toast.success(`${kind === "task" ? "Task" : "Priority"} deleted for good`),
    failed: "It could not be deleted",
    refetches: [deletedItemsKey(planId)],
    change: async ({ id, kind }: Pick<DeletedItem, "id" | "kind">) => {
      const { data } = await basalt.rpc("delete_plan_item_for_good", { item: id }).throwOnError();
      requireRow(data[0] ?? null, `This ${kind} is no longer in the bin.`);
    },
  });
}
