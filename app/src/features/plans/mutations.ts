import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { messageOf } from "@/lib/errors";
import { updateRow, updateSeen } from "@/lib/plan-rows";
import { requireRow } from "@/lib/stale-row";
import { toast } from "@/lib/toast";
import { type Plan, planKeys } from "./queries";
import type { PlanValues } from "./schema";

interface NewPlan {
  title: string;
  description: string | null;
}

/** Adds priorities and tasks to the new plan with this id. */
type Fill = (planId: string) => Promise<void>;

export function useCreatePlan(userId: string) {
  return useChange({
    done: "Plan created",
    failed: "Error creating plan",
    refetches: [planKeys.all],
    change: async ({ plan, fill }: { plan: NewPlan; fill: Fill | null }) => {
      const { data } = await basalt
        .from("plans")
        .insert({ ...plan, user_id: userId })
        .select("id")
        .single()
        .throwOnError();
      // The plan stands; it is empty then, and can be filled by hand.
      await fill?.(data.id).catch((error: unknown) =>
        toast.error("The template could not be added", { description: messageOf(error) }),
      );
      return data.id;
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

/** Puts a plan aside, or takes it up again. */
export function useArchivePlan() {
  return useChange({
    failed: "Error updating plan",
    refetches: [planKeys.all],
    done: (_, { archived }) => toast.success(archived ? "Plan archived" : "Plan restored from the archive"),
    change: async ({ id, archived }: { id: string; archived: boolean }) => {
      await updateRow("plans", id, { archived_at: archived ? new Date().toISOString() : null }, "plan");
    },
  });
}

/** Answers the id of the copy. */
export function useDuplicatePlan() {
  return useChange({
    done: "Plan duplicated",
    failed: "Error duplicating plan",
    refetches: [planKeys.all, ["priorities"], ["tasks"]],
    change: async (id: string) => {
      const { data } = await basalt.rpc("duplicate_plan", { plan_id: id }).throwOnError();
      return data;
    },
  });
}

/** Moves a plan to the bin, from where it can be restored for 30 days. */
export function useDeletePlan() {
  const restore = useRestorePlan();
  return useChange({
    // Raised once the list no longer shows the plan: "Undo" must not compete with that refetch.
    done: (_, id) =>
      toast.success("Plan deleted", {
        description: "You can restore it for 30 days.",
        action: { label: "Undo", onClick: () => restore.mutate(id) },
      }),
    failed: "Error deleting plan",
    refetches: [planKeys.all],
    change: async (id: string) => {
      const { data } = await basalt.rpc("move_plan_to_bin", { plan: id }).throwOnError();
      requireRow(data[0] ?? null, "This plan no longer exists, or you may not delete it.");
    },
  });
}

export function useRestorePlan() {
  return useChange({
    done: "Plan restored",
    failed: "Error restoring plan",
    refetches: [planKeys.all],
    change: async (id: string) => {
      const { data } = await basalt.rpc("restore_plan", { plan: id }).throwOnError();
      requireRow(data[0] ?? null, "This plan is no longer in the bin.");
    },
  });
}

export function useDeletePlanForGood() {
  return useChange({
    done: "Plan deleted for good",
    failed: "Error deleting plan",
    refetches: [planKeys.all],
    change: async (id: string) => {
      const { data } = await basalt.rpc("delete_plan_for_good", { plan: id }).throwOnError();
      requireRow(data[0] ?? null, "This plan is no longer in the bin.");
    },
  });
}
