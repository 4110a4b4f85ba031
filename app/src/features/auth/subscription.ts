import { queryOptions } from "@tanstack/react-query";
import { textsOf } from "@/lib/fields";

export interface Subscription {
  subscription_id: string;
  plan_name: string;
  status: string;
  current_period_end: string | null;
  cancel_at_period_end: boolean;
  plan_features: string[];
}

export const subscriptionKey = (userId: string) => ["subscription", userId] as const;

// The client is loaded when it is needed: the landing page does without, and this module is part of that page.

/** The person's current subscription, or null. */
export const subscriptionQuery = (userId: string) =>
  queryOptions({
    queryKey: subscriptionKey(userId),
    queryFn: async ({ signal }): Promise<Subscription | null> => {
      const { basalt } = await import("@/lib/basalt");
      const { data } = await basalt
        .rpc("get_user_subscription", { user_id: userId })
        .abortSignal(signal)
        .throwOnError();
      const row = data[0];
      return row ? { ...row, plan_features: textsOf(row.plan_features) } : null;
    },
    staleTime: 60_000,
    retry: 1,
  });

/** Whether a row of user_roles makes the person an administrator. */
export const adminQuery = (userId: string) =>
  queryOptions({
    queryKey: ["admin", userId],
    queryFn: async ({ signal }) => {
      const { basalt } = await import("@/lib/basalt");
      const { data } = await basalt
        .from("user_roles")
        .select("role")
        .eq("user_id", userId)
        .eq("role", "admin")
        .abortSignal(signal)
        .maybeSingle()
        .throwOnError();
      return data !== null;
    },
    staleTime: 5 * 60_000,
    retry: 1,
  });

/** Whether the person pays, or owes: nothing more is sold to them unasked. */
export function isSubscribed(subscription: Subscription | null) {
  return subscription !== null && ["active", "trialing", "past_due"].includes(subscription.status);
}

/** The plan that cannot be bought again. One that has ended can. */
export function currentPlanName(subscription: Subscription | null) {
  return subscription && subscription.status !== "canceled" ? subscription.plan_name : null;
}
