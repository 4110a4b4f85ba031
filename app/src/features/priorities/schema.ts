import * as z from "zod";
import { titleSchema } from "@/lib/title-schema";

export const prioritySchema = z.object({
  title: titleSchema(),
  description: z.string().max(100_000, "This text is too long"),
});
export type PriorityValues = z.infer<typeof prioritySchema>;
