import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import * as z from "zod/mini";
import { basalt, type Row } from "@/lib/basalt";

export type ReportSettings = Row<"plan_reports">;
export type ReportLink = Row<"plan_report_links">;

const count = z.int();
const list = z.object({
  total: count,
  tasks: z.array(
    z.object({
      title: z.string(),
      /** Index in `priorities`. */
      priority: count,
      due: z.nullable(z.string()),
      done: z.nullable(z.string()),
    }),
  ),
});
const reportSchema = z.object({
  title: z.string(),
  organization: z.nullable(z.object({ name: z.nullable(z.string()), logo_url: z.nullable(z.string()) })),
  first_day: z.string(),
  last_day: z.string(),
  as_of: z.string(),
  priorities: z.array(z.object({ title: z.string(), completed: count, total: count })),
  months: z.array(z.object({ month: z.string(), completed: count })),
  lists: z.object({
    done: z.optional(list),
    late: z.optional(list),
    next: z.optional(list),
    later: z.optional(list),
    undated: z.optional(list),
  }),
  comment: z.nullish(z.string()),
});
export type Report = z.infer<typeof reportSchema>;
export type ReportTask = z.infer<typeof list>["tasks"][number];

export const reportKeys = {
  settings: (planId: string) => ["report", planId, "settings"] as const,
  links: (planId: string) => ["report", planId, "links"] as const,
};

/** What the plan's report covers; null until it is saved for the first time. */
export const reportSettingsQuery = (planId: string) =>
  queryOptions({
    queryKey: reportKeys.settings(planId),
    queryFn: async ({ signal }) => {
      const { data } = await basalt
        .from("plan_reports")
        .select("*")
        .eq("plan_id", planId)
        .abortSignal(signal)
        .maybeSingle()
        .throwOnError();
      return data;
    },
  });

export interface ReportScope {
  firstDay: string;
  lastDay: string;
  timeZone: string;
  excluded: string[];
}

/** The report as the database computes it, the same for members and for visitors; null when it is not the person's plan. */
export const reportQuery = (planId: string, { firstDay, lastDay, timeZone, excluded }: ReportScope) =>
  queryOptions({
    queryKey: ["report", planId, "content", firstDay, lastDay, timeZone, excluded] as const,
    queryFn: async ({ signal }) => {
      const { data } = await basalt
        .rpc("get_plan_report", {
          plan: planId,
          first_day: firstDay,
          last_day: lastDay,
          time_zone: timeZone,
          excluded,
        })
        .abortSignal(signal)
        .throwOnError();
      return z.nullable(reportSchema).parse(data);
    },
    placeholderData: keepPreviousData,
    staleTime: 0,
  });

/** What a link shows; null if the link does not exist, has expired or was revoked. */
export const sharedReportQuery = (token: string) =>
  queryOptions({
    queryKey: ["shared-report", token] as const,
    queryFn: async ({ signal }) => {
      const { data } = await basalt.rpc("get_shared_report", { token }).abortSignal(signal).throwOnError();
      return z.nullable(reportSchema).parse(data);
    },
  });

/** The plan's report links, the newest first. */
export const reportLinksQuery = (planId: string) =>
  queryOptions({
    queryKey: reportKeys.links(planId),
    queryFn: async ({ signal }) => {
      const { data } = await basalt
        .from("plan_report_links")
        .select("*")
        .eq("plan_id", planId)
        .order("created_at", { ascending: false })
        .abortSignal(signal)
        .throwOnError();
      return data;
    },
  });
