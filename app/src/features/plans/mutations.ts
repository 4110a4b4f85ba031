import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { deleteRow, updateSeen } from "@/lib/plan-rows";
import { toast } from "@/lib/toast";
import { type Plan, planKeys } from "./queries";
import type { PlanValues } from "./schema";

interface NewPlan {
  title: string;
  description: string | null;
}

export function useCreatePlan(userId: string) {
  return useChange({
    done: "Plan created",
    failed: "Error creating plan",
    refetches: [planKeys.all],
    change: async (plan: NewPlan) => {
      await basalt
        .from("plans")
        .insert({ ...plan, user_id: userId })
        .throwOnError();
    },
  });
}

/** `false` when the plan was changed by another person since `base`; nothing was written then. */
export function useUpdatePlan() {
  return useChange({
    failed: "Error updating plan",
    refetches: [planKeys.all],
    change: async ({ base, values }: { base: Pick<Plan, "id" | "updated_at">; values: PlanValues }) => {
      const columns = {
        title: values.title,
        description: values.description || null,
        start_date: values.startDate || null,
        estimated_end_date: values.estimatedEndDate || null,
      };
      const saved = await updateSeen("plans", { id: base.id, updated_at: base.updated_at }, columns, "plan");
      if (saved) toast.success("Plan updated");
      return saved;
    },
  });
}

export function useDeletePlan() {
  return useChange({
    done: "Plan deleted",
    failed: "Error deleting plan",
    refetches: [planKeys.all],
    change: (id: string) => deleteRow("plans", id, "plan"),
  });
}
