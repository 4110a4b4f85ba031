import * as z from "zod/mini";

export const intervals = { day: "Daily", week: "Weekly", month: "Monthly", year: "Yearly" } as const;
export type Interval = keyof typeof intervals;

const notPositive = "Price must be a positive number";

/** An empty field means no limit. */
const limit = (most: number) =>
  z.pipe(
    z.pipe(
      z.string(),
      z.transform((text) => (text.trim() === "" ? null : Number(text))),
    ),
    z.nullable(z.int("Enter a whole number").check(z.minimum(1, "At least 1"), z.maximum(most, "This is too much"))),
  );

/** As the form has it; all limits are the database's. */
export const planFormSchema = z.object({
  name: z
    .string()
    .check(z.trim(), z.minLength(1, "Name is required"), z.maxLength(500, "Name must be at most 500 characters")),
  description: z.string().check(z.trim(), z.maxLength(5000, "Description must be at most 5,000 characters")),
  price: z.pipe(
    z.pipe(
      z.string(),
      // An empty field would be coerced to a price of nothing.
      z.transform((text) => (text.trim() === "" ? Number.NaN : Number(text))),
    ),
    z.number(notPositive).check(
      z.minimum(0, notPositive),
      z.maximum(9_999_999_999, "Price is too high"),
      z.refine((price) => Math.abs(price * 100 - Math.round(price * 100)) < 1e-6, "Price can have cents, but no less"),
    ),
  ),
  interval: z.enum(["day", "week", "month", "year"], "Interval is required"),
  stripePriceId: z
    .string()
    .check(
      z.trim(),
      z.minLength(1, "Stripe Price ID is required"),
      z.maxLength(255, "Stripe Price ID must be at most 255 characters"),
    ),
  features: z.string().check(z.maxLength(20_000, "This list is too long")),
  active: z.boolean(),
  maxPlans: limit(1_000_000),
  maxMembers: limit(1_000_000),
  maxMegabytes: limit(100_000_000),
});
export type PlanFormInput = z.input<typeof planFormSchema>;
export type PlanFormValues = z.output<typeof planFormSchema>;

/** The list that the text is, or null where it is no JSON array of strings. */
export function parseFeatures(text: string): string[] | null {
  try {
    return z.array(z.string()).parse(JSON.parse(text));
  } catch {
    return null;
  }
}
