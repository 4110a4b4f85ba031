import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { basalt, type Row } from "@/lib/basalt";

export type Comment = Row<"task_comments">;

const pageSize = 50;

export const commentKeys = {
  all: ["comments"] as const,
  ofPlan: (planId: string) => [...commentKeys.all, planId] as const,
  counts: (planId: string) => [...commentKeys.ofPlan(planId), "counts"] as const,
  list: (planId: string, taskId: string) => [...commentKeys.ofPlan(planId), "list", taskId] as const,
};

/** How many comments each task of a plan has; tasks without any are missing. */
export const commentCountsQuery = (planId: string) =>
  queryOptions({
    queryKey: commentKeys.counts(planId),
    queryFn: async ({ signal }) => {
      const { data } = await basalt.rpc("get_comment_counts", { plan: planId }).abortSignal(signal).throwOnError();
      return new Map(data.map(({ task_id: id, comments }) => [id, comments]));
    },
  });

/** The comments on a task, oldest first, in pages from the newest back. */
export const commentListQuery = (planId: string, taskId: string) =>
  infiniteQueryOptions({
    queryKey: commentKeys.list(planId, taskId),
    queryFn: async ({ signal, pageParam }) => {
      let rows = basalt.from("task_comments").select("*").eq("task_id", taskId);
      // Comments of one instant are ordered by their ids.
      if (pageParam) {
        const { created_at: at, id } = pageParam;
        rows = rows.or(`created_at.lt."${at}",and(created_at.eq."${at}",id.lt.${id})`);
      }
      const { data } = await rows
        .order("created_at", { ascending: false })
        .order("id", { ascending: false })
        .limit(pageSize)
        .abortSignal(signal)
        .throwOnError();
      return data;
    },
    initialPageParam: null as Pick<Comment, "id" | "created_at"> | null,
    getNextPageParam: (last) => (last.length === pageSize ? (last.at(-1) ?? null) : null),
    // A comment written between two pages is in both.
    select: ({ pages }) => [...new Map(pages.flat().map((comment) => [comment.id, comment])).values()].reverse(),
  });
