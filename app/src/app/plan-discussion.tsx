import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useCallback, useMemo, useState } from "react";
import { useSearchParams } from "react-router";
import { type Discussion, DiscussionContext } from "@/components/comments-button";
import { lazyDialog } from "@/components/lazy-part";
import { commentCountsQuery } from "@/features/comments/queries";
import { type Task, taskListQuery } from "@/features/tasks/queries";
import { canEdit, type PlanRole } from "@/lib/plan-role";

const CommentsDialog = lazyDialog(() =>
  import("@/features/comments/comments-dialog").then(({ CommentsDialog }) => CommentsDialog),
);

const none: ReadonlyMap<string, number> = new Map();

interface PlanDiscussionProps {
  planId: string;
  userId: string;
  role: PlanRole | null;
  children: ReactNode;
}

/** Around the tasks of a plan: each can be discussed. The links of mails, `?comments=`, open what was said about a task. */
export function PlanDiscussion({ planId, userId, role, children }: PlanDiscussionProps) {
  const [search, setSearch] = useSearchParams();
  const { data: counts = none } = useQuery(commentCountsQuery(planId));
  const { data: tasks } = useQuery(taskListQuery(planId));
  const wanted = search.get("comments");
  const found = tasks?.find(({ id }) => id === wanted);
  // Stays while the dialog fades, and when a colleague deletes the task meanwhile.
  const [shown, setShown] = useState<Task | null>(null);
  if (found && found !== shown) setShown(found);

  const setTask = useCallback(
    (taskId: string | null) =>
      setSearch(
        (before) => {
          const next = new URLSearchParams(before);
          if (taskId) next.set("comments", taskId);
          else next.delete("comments");
          return next;
        },
        { replace: true, preventScrollReset: true },
      ),
    [setSearch],
  );
  const discussion = useMemo<Discussion>(() => ({ counts, open: setTask }), [counts, setTask]);
  return (
    <DiscussionContext value={discussion}>
      {children}
      {shown && (
        <CommentsDialog
          open={found !== undefined}
          onOpenChange={(open) => open || setTask(null)}
          planId={planId}
          task={shown}
          userId={userId}
          mayComment={canEdit(role)}
          mayDeleteAll={role === "owner"}
        />
      )}
    </DiscussionContext>
  );
}
