import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { basalt, type Row } from "@/lib/basalt";
import { codeOf, messageOf } from "@/lib/errors";
import { requireRow } from "@/lib/stale-row";
import { toast } from "@/lib/toast";
import { type PlanFormValues, parseFeatures } from "./schema";
import { FieldError, requireStripePrice } from "./stripe-price";

export type SubscriptionPlan = Row<"subscription_plans">;

// The public pages read the same table under a key of their own, which begins alike.
const tableKey = ["subscription-plans"] as const;

/** All plans for sale and those no longer sold, the cheapest first. */
export const adminPlansQuery = () =>
  queryOptions({
    queryKey: [...tableKey, "admin"] as const,
    queryFn: async ({ signal }) => {
      const { data } = await basalt
        .from("subscription_plans")
        .select("*")
        .order("price", { ascending: true })
        .order("id")
        .abortSignal(signal)
        .throwOnError();
      return data;
    },
  });

const takenPriceId = "Another plan already has this Stripe Price ID.";

export const bytesPerMegabyte = 1_048_576;

function columnsOf(values: PlanFormValues) {
  return {
    name: values.name,
    description: values.description || null,
    price: values.price,
    interval: values.interval,
    stripe_price_id: values.stripePriceId,
    active: values.active,
    features: parseFeatures(values.features) ?? [],
    max_plans: values.maxPlans,
    max_members: values.maxMembers,
    max_bytes: values.maxMegabytes === null ? null : values.maxMegabytes * bytesPerMegabyte,
  };
}

export function useAddPlan() {
  return usePlanMutation("added", "Error adding plan", async (values: PlanFormValues) => {
    await requireStripePrice(values);
    await basalt.from("subscription_plans").insert(columnsOf(values)).throwOnError();
  });
}

export function useUpdatePlan() {
  return usePlanMutation(
    "updated",
    "Error updating plan",
    async ({ base, values }: { base: SubscriptionPlan; values: PlanFormValues }) => {
      // What is no longer sold can be saved when its price has gone from Stripe, and the Free plan has none there.
      const isUncharged = !values.active && values.stripePriceId === base.stripe_price_id;
      if (!base.is_free && !isUncharged) await requireStripePrice(values);
      const { data } = await basalt
        .from("subscription_plans")
        .update(columnsOf(values))
        .eq("id", base.id)
        .eq("updated_at", base.updated_at)
        .select("id")
        .maybeSingle()
        .throwOnError();
      requireRow(data);
    },
  );
}

export function useDeletePlan() {
  return usePlanMutation("deleted", "Error deleting plan", async (id: string) => {
    const { data } = await basalt
      .from("subscription_plans")
      .delete()
      .eq("id", id)
      .select("id")
      .maybeSingle()
      .throwOnError();
    requireRow(data);
  });
}

function usePlanMutation<Variables>(
  done: "added" | "updated" | "deleted",
  failed: string,
  change: (variables: Variables) => Promise<void>,
) {
  const queryClient = useQueryClient();
  const refresh = () => queryClient.invalidateQueries({ queryKey: tableKey });
  return useMutation({
    mutationFn: (variables: Variables) =>
      change(variables).catch((error: unknown) => {
        throw codeOf(error) === "23505" ? new FieldError("stripePriceId", takenPriceId, { cause: error }) : error;
      }),
    onSuccess: async () => {
      await refresh();
      toast.success(`Plan ${done}`, { description: `The subscription plan has been ${done} successfully.` });
    },
    onError: (error) => {
      toast.error(failed, { description: messageOf(error) });
      // It may have failed because another person was faster.
      void refresh();
    },
  });
}
