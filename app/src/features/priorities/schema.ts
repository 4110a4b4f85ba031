import * as z from "zod/mini";
import { titleSchema } from "@/lib/title-schema";

export const prioritySchema = z.object({
  title: titleSchema(),
  description: z.string().check(z.maxLength(100_000, "This text is too long")),
});
export type PriorityValues = z.infer<typeof prioritySchema>;
