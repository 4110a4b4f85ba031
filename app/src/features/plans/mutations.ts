import { useMutation, useQueryClient } from "@tanstack/react-query";
import { toast } from "sonner";
import { basalt } from "@/lib/basalt";
import { messageOf } from "@/lib/errors";
import { type Plan, planKeys } from "./queries";

interface NewPlan {
  title: string;
  description: string | null;
}

type PlanChange = Pick<Plan, "id" | "title" | "description" | "start_date" | "estimated_end_date">;

// A policy does not refuse an update or a delete, it hides the row: without this the toast would
// tell of a success that never was.
function requireRow(row: object | null) {
  if (!row) throw new Error("The plan no longer exists, or you may not change it.");
}

export function useCreatePlan(userId: string) {
  return usePlanMutation("Plan created", "Error creating plan", async (plan: NewPlan) => {
    await basalt
      .from("plans")
      .insert({ ...plan, user_id: userId })
      .throwOnError();
  });
}

export function useUpdatePlan() {
  return usePlanMutation("Plan updated", "Error updating plan", async ({ id, ...change }: PlanChange) => {
    const { data } = await basalt
      .from("plans")
      .update({ ...change, updated_at: new Date().toISOString() })
      .eq("id", id)
      .select("id")
      .maybeSingle()
      .throwOnError();
    requireRow(data);
  });
}

export function useDeletePlan() {
  return usePlanMutation("Plan deleted", "Error deleting plan", async (id: string) => {
    const { data } = await basalt.from("plans").delete().eq("id", id).select("id").maybeSingle().throwOnError();
    requireRow(data);
  });
}

function usePlanMutation<Variables>(done: string, failed: string, change: (variables: Variables) => Promise<void>) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: change,
    // Returned, so that the mutation is pending until the list shows what it did.
    onSuccess: () => queryClient.invalidateQueries({ queryKey: planKeys.all }).then(() => void toast.success(done)),
    onError: (error) => void toast.error(failed, { description: messageOf(error) }),
  });
}
