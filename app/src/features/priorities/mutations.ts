import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { deleteRow, updateSeen } from "@/lib/plan-rows";
import { toast } from "@/lib/toast";
import { type Priority, priorityKeys } from "./queries";
import type { PriorityValues } from "./schema";

const toColumns = ({ title, description }: PriorityValues) => ({ title, description: description || null });

export function useCreatePriority(planId: string) {
  return useChange({
    done: "Priority created",
    failed: "Error creating priority",
    refetches: [priorityKeys.list(planId), priorityKeys.counts()],
    change: async (values: PriorityValues) => {
      await basalt
        .from("priorities")
        .insert({ ...toColumns(values), plan_id: planId })
        .throwOnError();
      return true;
    },
  });
}

/** `false` when the priority was changed by another person since `base`; nothing was written then. */
export function useUpdatePriority(planId: string) {
  return useChange({
    failed: "Error updating priority",
    refetches: [priorityKeys.list(planId), priorityKeys.counts()],
    change: async ({ base, values }: { base: Pick<Priority, "id" | "updated_at">; values: PriorityValues }) => {
      const saved = await updateSeen(
        "priorities",
        { id: base.id, updated_at: base.updated_at },
        toColumns(values),
        "priority",
      );
      if (saved) toast.success("Priority updated");
      return saved;
    },
  });
}

export function useDeletePriority(planId: string) {
  return useChange({
    done: "Priority deleted",
    failed: "Error deleting priority",
    refetches: [priorityKeys.list(planId), priorityKeys.counts(), ["tasks"]],
    change: (id: string) => deleteRow("priorities", id, "priority"),
  });
}
