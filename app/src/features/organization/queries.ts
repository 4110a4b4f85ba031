import { queryOptions } from "@tanstack/react-query";
import { basalt, type Row } from "@/lib/basalt";
import { holdRow } from "@/lib/held";

export type Organization = Row<"organizations">;

export const organizationKeys = {
  all: ["organizations"] as const,
  detail: (planId: string) => [...organizationKeys.all, "detail", planId] as const,
};

/** The organisation that a plan is for; null when nothing was entered yet. */
export const organizationQuery = (planId: string) =>
  queryOptions({
    queryKey: organizationKeys.detail(planId),
    queryFn: async ({ signal }) => {
      const { data } = await basalt
        .from("organizations")
        .select("*")
        .eq("plan_id", planId)
        .abortSignal(signal)
        .maybeSingle()
        .throwOnError();
      return data;
    },
    structuralSharing: holdRow,
    meta: { errorTitle: "Error fetching organization data" },
  });
