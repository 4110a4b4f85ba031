import { infiniteQueryOptions } from "@tanstack/react-query";
import { basalt, type Row } from "@/lib/basalt";

export type Activity = Row<"plan_activity">;

const pageSize = 50;

/** What happened in a plan in the last 90 days, newest first. */
export const activityQuery = (planId: string) =>
  infiniteQueryOptions({
    queryKey: ["activity", planId] as const,
    queryFn: async ({ signal, pageParam }) => {
      const rows = basalt.from("plan_activity").select("*").eq("plan_id", planId);
      const { data } = await (pageParam ? rows.lt("id", pageParam) : rows)
        .order("id", { ascending: false })
        .limit(pageSize)
        .abortSignal(signal)
        .throwOnError();
      return data;
    },
    initialPageParam: 0,
    getNextPageParam: (last) => (last.length === pageSize ? (last.at(-1)?.id ?? null) : null),
    select: ({ pages }) => pages.flat(),
    staleTime: 0,
  });
