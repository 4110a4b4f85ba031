import * as z from "zod/mini";
import { titleSchema } from "@/lib/title-schema";

const richText = z.string().check(z.maxLength(100_000, "This text is too long"));

/** Dates are `YYYY-MM-DD` as a date input gives them; empty is none. */
export const planSchema = z
  .object({
    title: titleSchema(),
    description: richText,
    startDate: z.string(),
    estimatedEndDate: z.string(),
  })
  .check(
    z.refine(({ startDate, estimatedEndDate }) => !startDate || !estimatedEndDate || startDate <= estimatedEndDate, {
      path: ["estimatedEndDate"],
      // Also beside a wrong title: someone who mends a form wants to hear everything at once.
      when: () => true,
      error: "The end date must not be before the start date",
    }),
  );
export type PlanValues = z.infer<typeof planSchema>;
