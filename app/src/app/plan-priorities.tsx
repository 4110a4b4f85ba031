import { useQuery } from "@tanstack/react-query";
import { createContext, type ReactNode, use, useCallback, useMemo } from "react";
import { Button } from "@/components/ui/button";
import { Skeleton } from "@/components/ui/skeleton";
import { PriorityList } from "@/features/priorities/priority-list";
import type { Priority } from "@/features/priorities/queries";
import { inDueOrder } from "@/features/tasks/due-order";
import { type Task, taskListQuery } from "@/features/tasks/queries";
import { TaskList } from "@/features/tasks/task-list";
import { useGroups } from "@/hooks/use-groups";
import { countDone, type Done } from "@/lib/progress";

interface PlanPrioritiesProps {
  planId: string;
  editable: boolean;
  /** Whether the tasks are in view at first. */
  startOpen: boolean;
  /** Whether tasks are sorted by their due date instead of their own order. */
  byDueDate?: boolean;
  /** What stands where a priority has no tasks. */
  withoutTasks: string;
  /** More actions beside Add Priority. */
  actions?: ReactNode;
}

interface PlanTasks {
  isPending: boolean;
  /** By priority; null when they could not be loaded. */
  groups: ReadonlyMap<string, Task[]> | null;
  retry: () => void;
}
// The cards do not depend on it, so that a check-off renders the tasks of one of them.
const PlanTasksContext = createContext<PlanTasks>({ isPending: true, groups: null, retry: () => {} });

const noTasks: Task[] = [];
const nothingDone: Done = { completed: 0, total: 0 };

/** A plan's priorities and their tasks. */
export function PlanPriorities({
  planId,
  editable,
  startOpen,
  byDueDate = false,
  withoutTasks,
  actions,
}: PlanPrioritiesProps) {
  const { data, isPending, refetch } = useQuery(taskListQuery(planId));
  const groups = useGroups(data ?? noTasks, (task) => task.priority_id);
  const done = useMemo(() => new Map([...groups].map(([id, tasks]) => [id, countDone(tasks)])), [groups]);
  const isLoaded = data !== undefined;
  const planTasks = useMemo<PlanTasks>(
    () => ({ isPending, groups: isLoaded ? groups : null, retry: () => void refetch() }),
    [isPending, isLoaded, groups, refetch],
  );
  const renderTasks = useCallback(
    (priority: Priority) => (
      <PriorityTasks
        planId={planId}
        priority={priority}
        editable={editable}
        sorted={byDueDate}
        whenEmpty={withoutTasks}
      />
    ),
    [planId, editable, byDueDate, withoutTasks],
  );
  return (
    <PlanTasksContext value={planTasks}>
      <PriorityList
        planId={planId}
        editable={editable}
        actions={actions}
        startOpen={startOpen}
        doneOf={(id) => done.get(id) ?? nothingDone}
        renderTasks={renderTasks}
      />
    </PlanTasksContext>
  );
}

interface PriorityTasksProps {
  planId: string;
  priority: Priority;
  editable: boolean;
  sorted: boolean;
  whenEmpty: string;
}

function PriorityTasks({ priority, ...props }: PriorityTasksProps) {
  const { isPending, groups, retry } = use(PlanTasksContext);
  const own = groups?.get(priority.id) ?? noTasks;
  const tasks = useMemo(() => (props.sorted ? inDueOrder(own) : own), [props.sorted, own]);
  if (isPending) {
    return (
      <div role="status" className="grid gap-3 p-4">
        <span className="sr-only">Loading tasks...</span>
        <Skeleton className="h-6" />
        <Skeleton className="h-6 w-4/5" />
      </div>
    );
  }
  if (!groups) {
    return (
      <p className="p-4 text-sm">
        The tasks could not be loaded.{" "}
        <Button variant="secondary" size="small" onClick={retry}>
          Try again
        </Button>
      </p>
    );
  }
  return <TaskList priority={priority} tasks={tasks} {...props} />;
}
