import { useChange } from "@/hooks/use-change";
import { useRestoreItem } from "@/hooks/use-restore-item";
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

/** Moves a priority with its tasks to the plan's bin, from where it can be restored for 30 days. */
export function useDeletePriority(planId: string) {
  const restore = useRestoreItem(planId);
  return useChange({
    done: (_, id) =>
      toast.success("Priority deleted", {
        action: { label: "Undo", onClick: () => restore.mutate({ id, kind: "priority" }) },
      }),
    failed: "Error deleting priority",
    refetches: [priorityKeys.list(planId), priorityKeys.counts(), ["tasks"]],
    change: (id: string) => deleteRow("priorities", id, "priority"),
  });
}
