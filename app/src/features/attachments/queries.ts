import { queryOptions } from "@tanstack/react-query";
import type { Row } from "@/lib/basalt";
import { fetchOfPlan } from "@/lib/plan-rows";

export type Attachment = Row<"plan_attachments">;

export const bucket = "plan_files";

export const attachmentKeys = {
  all: ["attachments"] as const,
  list: (planId: string) => [...attachmentKeys.all, "list", planId] as const,
};

/** A plan's files, newest first. */
export const attachmentListQuery = (planId: string) =>
  queryOptions({
    queryKey: attachmentKeys.list(planId),
    queryFn: ({ signal }) => fetchOfPlan("plan_attachments", planId, signal),
    meta: { errorTitle: "Failed to load files" },
  });
