import * as z from "zod/mini";
import { isRealDay, ownTimeZone } from "@/lib/dates";
import { longestPeriodDays, periodOf } from "./periods";
import type { ReportSettings } from "./queries";

const day = z.string().check(z.refine(isRealDay, "Choose a date"));
const dayMs = 24 * 60 * 60 * 1000;

export const commentLimit = 20_000;

export const reportSettingsSchema = z
  .object({
    firstDay: day,
    lastDay: day,
    /** Ids of priorities that are left out, sorted. */
    excluded: z.array(z.string()),
    comment: z.string().check(z.maxLength(commentLimit, "This text is too long")),
  })
  .check(
    z.refine(({ firstDay, lastDay }) => !(lastDay < firstDay), {
      path: ["lastDay"],
      error: "The last day must not be before the first day",
    }),
    z.refine(({ firstDay, lastDay }) => !(Date.parse(lastDay) - Date.parse(firstDay) > longestPeriodDays * dayMs), {
      path: ["lastDay"],
      error: "A report covers at most three years",
    }),
  );
export type ReportSettingsValues = z.infer<typeof reportSettingsSchema>;

/** What the fields say of the saved settings; a report that was never saved is about this quarter. */
export function valuesOf(settings: ReportSettings | null): ReportSettingsValues {
  if (!settings) return { ...periodOf("this-quarter"), excluded: [], comment: "" };
  return {
    firstDay: settings.first_day,
    lastDay: settings.last_day,
    excluded: [...settings.excluded_priorities].sort(),
    comment: settings.comment ?? "",
  };
}

/** The columns for these values. The days are those of the person who chose them. */
export function columnsOf({ firstDay, lastDay, excluded, comment }: ReportSettingsValues) {
  return {
    first_day: firstDay,
    last_day: lastDay,
    time_zone: ownTimeZone(),
    excluded_priorities: excluded,
    comment: comment || null,
  };
}
