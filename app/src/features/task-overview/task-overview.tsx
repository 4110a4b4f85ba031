import { useInfiniteQuery } from "@tanstack/react-query";
import { ListChecksIcon } from "lucide-react";
import { Link } from "react-router";
import { LoadMore } from "@/components/load-more";
import { PageHeading } from "@/components/page-heading";
import { ErrorState, PageState } from "@/components/page-state";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { Skeleton } from "@/components/ui/skeleton";
import { useTableInvalidation } from "@/hooks/use-table-invalidation";
import { cn } from "@/lib/cn";
import { formatDay, today } from "@/lib/dates";
import { messageOf } from "@/lib/errors";
import { openTasksQuery, type Show, shows } from "./queries";

const texts: Record<Show, { label: string; empty: string }> = {
  mine: { label: "My tasks", empty: "No open task names you. Choose yourself as the responsible party of a task." },
  overdue: { label: "Overdue", empty: "Nothing is late." },
  week: { label: "Due this week", empty: "Nothing is due in the next seven days." },
};

const watched = [{ table: "tasks" as const, queryKey: ["tasks"] }];

/** Open tasks of all plans: the person's own, the late ones, or those of this week. */
export function TaskOverview({ wanted, userId }: { wanted: string; userId: string }) {
  const show = shows.find((one) => one === wanted) ?? "mine";
  const tasks = useInfiniteQuery(openTasksQuery(show, userId));
  useTableInvalidation(watched);
  return (
    <>
      <PageHeading title="Tasks" subtitle="Open tasks of all your plans">
        <Button asChild variant="secondary">
          <Link to="/dashboard">Back to plans</Link>
        </Button>
      </PageHeading>
      <nav aria-label="Which tasks" className="mb-4 inline-flex max-w-full flex-wrap gap-1 rounded-lg bg-muted p-1">
        {shows.map((one) => (
          <Button
            key={one}
            asChild
            variant="ghost"
            size="small"
            className="aria-[current]:bg-surface-raised aria-[current]:shadow-xs"
          >
            <Link to={`/dashboard?tasks=${one}`} replace aria-current={one === show ? "page" : undefined}>
              {texts[one].label}
            </Link>
          </Button>
        ))}
      </nav>
      <Card>
        {tasks.isPending ? (
          <div role="status" className="grid gap-3 p-4">
            <span className="sr-only">Loading tasks...</span>
            <Skeleton className="h-11" />
            <Skeleton className="h-11" />
            <Skeleton className="h-11" />
          </div>
        ) : !tasks.data ? (
          <ErrorState
            title="The tasks could not be loaded"
            description={messageOf(tasks.error)}
            retrying={tasks.isFetching}
            onRetry={() => void tasks.refetch()}
          />
        ) : tasks.data.length === 0 ? (
          <PageState
            art={<ListChecksIcon className="size-10 text-muted-foreground" aria-hidden />}
            title={`${texts[show].label}: none`}
            description={texts[show].empty}
          />
        ) : (
          <>
            <ul aria-label={texts[show].label} className="divide-y">
              {tasks.data.map((task) => {
                const late = task.due_date !== null && task.due_date < today();
                return (
                  <li key={task.id}>
                    <Link
                      to={`/plan/${task.plan_id}?comments=${task.id}`}
                      className="flex flex-wrap items-baseline gap-x-4 gap-y-1 px-4 py-3 transition-colors hover:bg-muted"
                    >
                      <span className="min-w-0 grow basis-56">
                        <span dir="auto" className="block font-medium [overflow-wrap:anywhere]">
                          {task.title}
                        </span>
                        <span dir="auto" className="block text-muted-foreground text-sm [overflow-wrap:anywhere]">
                          {task.plans.title}
                          {show !== "mine" &&
                            task.responsible_party.length > 0 &&
                            ` · ${task.responsible_party.join(", ")}`}
                        </span>
                      </span>
                      <span className={cn("text-sm", late ? "font-medium text-destructive" : "text-muted-foreground")}>
                        {task.due_date ? `Due ${formatDay(task.due_date)}${late ? " (overdue)" : ""}` : "No due date"}
                      </span>
                    </Link>
                  </li>
                );
              })}
            </ul>
            <LoadMore query={tasks} />
          </>
        )}
      </Card>
    </>
  );
}
