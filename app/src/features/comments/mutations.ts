import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { requireRow } from "@/lib/stale-row";
import { commentKeys } from "./queries";

interface NewComment {
  /** Made by the page: a comment that is sent again after an answer was lost is not written twice. */
  id: string;
  body: string;
  mentions: string[];
}

/** The database's code for a row that is there already. */
const duplicate = "23505";

export function useAddComment(planId: string, taskId: string) {
  return useChange({
    failed: "Error adding comment",
    refetches: [commentKeys.list(planId, taskId), commentKeys.counts(planId), ["activity", planId]],
    change: async (comment: NewComment) => {
      const { error } = await basalt.from("task_comments").insert({ ...comment, task_id: taskId });
      if (error && error.code !== duplicate) throw error;
    },
  });
}

export function useDeleteComment(planId: string, taskId: string) {
  return useChange({
    done: "Comment deleted",
    failed: "Error deleting comment",
    refetches: [commentKeys.list(planId, taskId), commentKeys.counts(planId)],
    change: async (id: string) => {
      const { data } = await basalt
        .from("task_comments")
        .delete()
        .eq("id", id)
        .select("id")
        .maybeSingle()
        .throwOnError();
      requireRow(data, "This comment no longer exists, or you may not delete it.");
    },
  });
}
