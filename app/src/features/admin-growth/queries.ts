import { queryOptions } from "@tanstack/react-query";
import { basalt } from "@/lib/basalt";

export const growthDays = 90;

/** A row for each of the last days: sign-ups, and at the day's end subscriptions in force and what they bring a month. */
export const growthQuery = () =>
  queryOptions({
    queryKey: ["admin-growth"] as const,
    queryFn: async ({ signal }) => {
      const { data } = await basalt.rpc("admin_growth", { days: growthDays }).abortSignal(signal).throwOnError();
      return data.map((row) => ({ ...row, monthly_revenue: Number(row.monthly_revenue) }));
    },
    staleTime: 60_000,
  });
