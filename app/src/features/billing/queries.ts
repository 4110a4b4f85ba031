import { queryOptions } from "@tanstack/react-query";
import { formatBytes } from "@/lib/bytes";
import { fieldsOf, textOf, textsOf } from "@/lib/fields";
import { publicRows } from "@/lib/public-rows";

export interface PlanForSale {
  id: string;
  name: string;
  description: string | null;
  /** US dollars. */
  price: number;
  interval: string;
  features: string[];
  stripe_price_id: string;
  /** The plan of those who have no subscription. */
  isFree: boolean;
  /** "3 plans", "Unlimited people". Empty where the server knows no limits. */
  limits: string[];
}

export const plansForSaleKey = ["plans-for-sale"] as const;

/** What can be bought, the cheapest first. */
export const plansForSaleQuery = () =>
  queryOptions({
    queryKey: plansForSaleKey,
    queryFn: async ({ signal }) => {
      const { data: rows } = await (await publicRows())
        .from("subscription_plans")
        .select("*")
        .eq("active", true)
        .order("price")
        .abortSignal(signal)
        .throwOnError();
      return rows.flatMap((row) => {
        const fields = fieldsOf(row);
        const [id, name, priceId] = ["id", "name", "stripe_price_id"].map((field) => textOf(fields, field));
        const price = Number(fields.get("price"));
        // Without these there is nothing to sell.
        if (!id || !name || !priceId || !Number.isFinite(price)) return [];
        const plan: PlanForSale = {
          id,
          name,
          description: textOf(fields, "description"),
          price,
          interval: textOf(fields, "interval") ?? "month",
          features: textsOf(fields.get("features")),
          stripe_price_id: priceId,
          isFree: fields.get("is_free") === true,
          limits: limitsOf(fields),
        };
        return [plan];
      });
    },
    staleTime: 60_000,
    retry: 1,
  });

/** What a plan includes, in words; nothing where no plan is limited. */
export function limitsOf(fields: ReadonlyMap<string, unknown>): string[] {
  const [plans, members, bytes] = ["max_plans", "max_members", "max_bytes"].map((name) => fields.get(name));
  if ([plans, members, bytes].every((limit) => typeof limit !== "number")) return [];
  return [
    typeof plans !== "number" ? "Unlimited plans" : plans === 1 ? "1 plan" : `${plans} plans`,
    typeof members !== "number" ? "Unlimited people" : `${members} people on each plan`,
    typeof bytes !== "number" ? "Unlimited files" : `${formatBytes(bytes)} of files`,
  ];
}
