import { queryOptions } from "@tanstack/react-query";
import { basalt, type Row } from "@/lib/basalt";
import { holdRow, holdRows, holdValue } from "@/lib/held";
import { type PlanRole, toPlanRole } from "@/lib/plan-role";

export type Plan = Row<"plans">;
export type { PlanRole };

export const planKeys = {
  all: ["plans"] as const,
  list: () => [...planKeys.all, "list"] as const,
  detail: (planId: string) => [...planKeys.all, "detail", planId] as const,
  // Not below `plans`: what changes a plan does not ask for this anew.
  fate: (planId: string) => ["plan-fate", planId] as const,
  role: (planId: string, userId: string) => [...planKeys.all, "role", planId, userId] as const,
  roles: (userId: string) => [...planKeys.all, "roles", userId] as const,
};

/** The plans a person may see, newest first. Which those are, policies decide. */
export const planListQuery = () =>
  queryOptions({
    queryKey: planKeys.list(),
    queryFn: async ({ signal }) => {
      const { data } = await basalt
        .from("plans")
        .select("*")
        .order("created_at", { ascending: false })
        .abortSignal(signal)
        .throwOnError();
      return data;
    },
    structuralSharing: holdRows,
    meta: { errorTitle: "Error fetching plans" },
  });

/** The person's role in each plan, by plan id. */
export const planRolesQuery = (userId: string) =>
  queryOptions({
    queryKey: planKeys.roles(userId),
    queryFn: async ({ signal }) => {
      const { data } = await basalt
        .from("plan_members")
        .select("plan_id, role")
        .eq("user_id", userId)
        .eq("invite_accepted", true)
        .abortSignal(signal)
        .throwOnError();
      return new Map(data.map((member) => [member.plan_id, toPlanRole(member.role)]));
    },
  });

/** One plan; null when there is none, or none that this person may see. */
export const planQuery = (planId: string) =>
  queryOptions({
    queryKey: planKeys.detail(planId),
    queryFn: async ({ signal }) => {
      const { data } = await basalt
        .from("plans")
        .select("*")
        .eq("id", planId)
        .abortSignal(signal)
        .maybeSingle()
        .throwOnError();
      return data;
    },
    structuralSharing: holdRow,
    meta: { errorTitle: "Error fetching plan" },
  });

/** What became of a plan that this person could see before. */
export const planFateQuery = (planId: string) =>
  queryOptions({
    queryKey: planKeys.fate(planId),
    queryFn: async ({ signal }): Promise<"deleted" | "removed"> => {
      const { data } = await basalt.rpc("plan_exists", { plan: planId }).abortSignal(signal).throwOnError();
      return data ? "removed" : "deleted";
    },
    staleTime: 0,
  });

/** The person's role in a plan: as a member, else as the server's function says; when that fails, too, as the owner's. */
export const planRoleQuery = (planId: string, userId: string) =>
  queryOptions({
    queryKey: planKeys.role(planId, userId),
    queryFn: async ({ signal }): Promise<PlanRole> => {
      const member = await basalt
        .from("plan_members")
        .select("role")
        .eq("plan_id", planId)
        .eq("user_id", userId)
        .abortSignal(signal)
        .maybeSingle();
      if (member.data) return toPlanRole(member.data.role);
      const looked = await basalt.rpc("get_user_plan_role", { plan_id: planId, user_id: userId }).abortSignal(signal);
      signal.throwIfAborted();
      // As the specification has it. It only decides which buttons show: policies refuse what they would do.
      return looked.error ? "owner" : toPlanRole(looked.data);
    },
    // Dialogs go with the right to edit.
    structuralSharing: (before, fresh) => holdValue(before, fresh),
  });

/** How many plans the person has of how many that the subscription includes; null without a limit. */
export const planLimitQuery = () =>
  queryOptions({
    queryKey: [...planKeys.all, "limit"] as const,
    queryFn: async ({ signal }) => {
      const { data } = await basalt.rpc("get_my_limits").abortSignal(signal).throwOnError();
      const limits = data[0];
      return limits?.max_plans ? { name: limits.plan_name, used: limits.plans, of: limits.max_plans } : null;
    },
    retry: 1,
  });

/** The person's own plans in the bin, the newest first. */
export const deletedPlansQuery = () =>
  queryOptions({
    queryKey: [...planKeys.all, "deleted"] as const,
    queryFn: async ({ signal }) => {
      const { data } = await basalt.rpc("get_deleted_plans").abortSignal(signal).throwOnError();
      return data;
    },
    retry: 1,
  });
