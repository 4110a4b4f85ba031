import * as z from "zod";

/** Dates are `YYYY-MM-DD` as a date input gives them; empty is none. */
export const planSchema = z
  .object({
    title: z.string().trim().min(3, "Title must be at least 3 characters"),
    description: z.string(),
    startDate: z.string(),
    estimatedEndDate: z.string(),
  })
  .refine(({ startDate, estimatedEndDate }) => !startDate || !estimatedEndDate || startDate <= estimatedEndDate, {
    path: ["estimatedEndDate"],
    error: "The end date must not be before the start date",
  });
export type PlanValues = z.infer<typeof planSchema>;
