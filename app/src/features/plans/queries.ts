import { queryOptions } from "@tanstack/react-query";
import { basalt, type Row } from "@/lib/basalt";

export type Plan = Row<"plans">;
export type PlanRole = "owner" | "manager" | "viewer";

export const planKeys = {
  all: ["plans"] as const,
  list: () => [...planKeys.all, "list"] as const,
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

/** Anything unknown counts as the role with the fewest rights. */
export function toPlanRole(role: string): PlanRole {
  return role === "owner" || role === "manager" ? role : "viewer";
}
