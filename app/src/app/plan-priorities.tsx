import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useMemo } from "react";
import { Button } from "@/components/ui/button";
import { Skeleton } from "@/components/ui/skeleton";
import { PriorityList } from "@/features/priorities/priority-list";
import { taskListQuery } from "@/features/tasks/queries";
import { TaskList } from "@/features/tasks/task-list";
import { countDone } from "@/lib/progress";

interface PlanPrioritiesProps {
  planId: string;
  editable: boolean;
  /** Whether the tasks are in view at first. */
  startOpen: boolean;
  /** What stands where a priority has no tasks. */
  withoutTasks: string;
  /** More actions beside Add Priority. */
  actions?: ReactNode;
}

/** A plan's priorities and their tasks. */
export function PlanPriorities({ planId, editable, startOpen, withoutTasks, actions }: PlanPrioritiesProps) {
  const tasks = useQuery(taskListQuery(planId));
  const byPriority = useMemo(() => Map.groupBy(tasks.data ?? [], (task) => task.priority_id), [tasks.data]);
  const tasksOf = (priorityId: string) => byPriority.get(priorityId) ?? [];
  return (
    <PriorityList
      planId={planId}
      editable={editable}
      actions={actions}
      startOpen={startOpen}
      doneOf={(id) => countDone(tasksOf(id))}
      renderTasks={(priority) =>
        tasks.isPending ? (
          <div role="status" className="grid gap-3 p-4">
            <span className="sr-only">Loading tasks...</span>
            <Skeleton className="h-6" />
            <Skeleton className="h-6 w-4/5" />
          </div>
        ) : !tasks.data ? (
          <p className="p-4 text-sm">
            The tasks could not be loaded.{" "}
            <Button variant="secondary" size="small" onClick={() => void tasks.refetch()}>
              Try again
            </Button>
          </p>
        ) : (
          <TaskList
            planId={planId}
            priority={priority}
            tasks={tasksOf(priority.id)}
            editable={editable}
            whenEmpty={withoutTasks}
          />
        )
      }
    />
  );
}
