import { MessageSquareIcon } from "lucide-react";
import { createContext, use } from "react";
import { Button } from "@/components/ui/button";
import { cn } from "@/lib/cn";

export interface Discussion {
  /** Comments of each task that has any. */
  counts: ReadonlyMap<string, number>;
  open: (taskId: string) => void;
}

/** Where tasks can be discussed; null elsewhere. */
export const DiscussionContext = createContext<Discussion | null>(null);

/** Opens a task's comments. */
export function CommentsButton({ task, className }: { task: { id: string; title: string }; className?: string }) {
  const discussion = use(DiscussionContext);
  if (!discussion) return null;
  const count = discussion.counts.get(task.id) ?? 0;
  const label = count === 0 ? "Comment on" : count === 1 ? "1 comment on" : `${count} comments on`;
  return (
    <Button
      variant="ghost"
      size="small"
      aria-label={`${label} ${task.title}`}
      className={cn("-mx-2 px-2 text-muted-foreground text-xs print:hidden", className)}
      onClick={() => discussion.open(task.id)}
    >
      <MessageSquareIcon aria-hidden />
      {count > 0 ? count : "Comment"}
    </Button>
  );
}
