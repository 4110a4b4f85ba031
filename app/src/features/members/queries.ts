import { queryOptions } from "@tanstack/react-query";
import { basalt, type Row } from "@/lib/basalt";
import { type PlanRole, planRoles, toPlanRole } from "@/lib/plan-role";

export type Member = Omit<Row<"plan_members">, "role"> & { role: PlanRole };

export const memberKeys = {
  all: ["members"] as const,
  list: (planId: string) => [...memberKeys.all, "list", planId] as const,
};

/** Members and open invitations as far as this person may see them: owners first, then managers, then viewers. */
export const memberListQuery = (planId: string) =>
  queryOptions({
    queryKey: memberKeys.list(planId),
    queryFn: async ({ signal }) => {
      const { data } = await basalt
        .from("plan_members")
        .select("*")
        .eq("plan_id", planId)
        .order("created_at")
        .abortSignal(signal)
        .throwOnError();
      const members: Member[] = data.map((member) => ({ ...member, role: toPlanRole(member.role) }));
      return members.sort((one, other) => planRoles.indexOf(one.role) - planRoles.indexOf(other.role));
    },
    meta: { errorTitle: "Error fetching members" },
  });
