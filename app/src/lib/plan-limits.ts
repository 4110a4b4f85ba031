import { queryOptions } from "@tanstack/react-query";
import { basalt } from "@/lib/basalt";

export interface PlanLimits {
  /** Of the subscription. */
  name: string;
  members: number;
  maxMembers: number | null;
  bytes: number;
  maxBytes: number | null;
  /** Whether the person's own subscription counts, so that they can upgrade it. */
  isMine: boolean;
}

/** Below "members": what changes the team changes this. */
export const planLimitsKey = (planId: string) => ["members", "limits", planId] as const;

/** What the subscription of a plan's owner includes and how much is used, for owners and managers; null without limits. */
export const planLimitsQuery = (planId: string) =>
  queryOptions({
    queryKey: planLimitsKey(planId),
    queryFn: async ({ signal }): Promise<PlanLimits | null> => {
      const { data } = await basalt.rpc("get_plan_limits", { plan: planId }).abortSignal(signal).throwOnError();
      // The generator takes every column of a function for filled.
      const row = data[0] as
        | {
            plan_name: string;
            members: number;
            max_members: number | null;
            bytes: number;
            max_bytes: number | null;
            is_mine: boolean;
          }
        | undefined;
      if (!row) return null;
      const { plan_name: name, members, max_members: maxMembers, bytes, max_bytes: maxBytes, is_mine: isMine } = row;
      return { name, members, maxMembers, bytes, maxBytes, isMine };
    },
    retry: 1,
  });
