import * as z from "zod/mini";
import { isRealDay } from "@/lib/dates";
import { titleSchema } from "@/lib/title-schema";
import { taskLimits } from "./limits";
import { toNames } from "./names";

export const taskSchema = z.object({
  title: titleSchema("Focus Area"),
  description: z.string().check(z.maxLength(taskLimits.description, "This text is too long")),
  measure: z.string().check(z.maxLength(taskLimits.measure, "This text is too long")),
  dueDate: z.string().check(z.refine((day) => day === "" || isRealDay(day), "Please enter a date that exists")),
  responsible: z.string().check(
    z.refine((text) => toNames(text).length <= taskLimits.names, `At most ${taskLimits.names} names`),
    z.refine((text) => toNames(text).join("").length <= taskLimits.namesLength, "These names are too long"),
  ),
});
export type TaskValues = z.infer<typeof taskSchema>;
