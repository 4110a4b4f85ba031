import * as z from "zod/mini";
import { FunctionError, invokeFunction } from "@/lib/functions";
import { formatUsd } from "@/lib/usd";
import type { PlanFormValues } from "./schema";

/** What the person can correct in a field of the form. */
export class FieldError extends Error {
  override name = "FieldError";
  field: keyof PlanFormValues;
  constructor(field: keyof PlanFormValues, message: string, options?: ErrorOptions) {
    super(message, options);
    this.field = field;
  }
}

const answerShape = z.object({
  price: z.nullable(
    z.object({ cents: z.int(), interval: z.enum(["day", "week", "month", "year"]), active: z.boolean() }),
  ),
});

/** What Stripe charges; null where no Stripe account is set up, so that nothing can be bought. */
export async function readStripePrice(priceId: string) {
  try {
    const answer = await invokeFunction("check-price", { priceId }, { failed: "The server gave no reason." });
    return answerShape.parse(answer).price;
  } catch (error) {
    if (error instanceof FunctionError && error.subject === "stripe_price_id") {
      throw new FieldError("stripePriceId", error.message, { cause: error });
    }
    throw error;
  }
}

/** Rejects a plan that Stripe would not charge as the plan says. */
export async function requireStripePrice(values: PlanFormValues) {
  const price = await readStripePrice(values.stripePriceId);
  if (!price) return;
  if (values.active && !price.active) {
    throw new FieldError("stripePriceId", "This price is archived at Stripe. Unarchive it there, or use another one.");
  }
  if (Math.round(values.price * 100) !== price.cents || values.interval !== price.interval) {
    throw new FieldError(
      "price",
      `Stripe charges ${formatUsd(price.cents / 100)} per ${price.interval} for this price.`,
    );
  }
}
