import { PlusIcon } from "lucide-react";
import { memo, useCallback, useMemo, useRef, useState } from "react";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { lazyDialog } from "@/components/lazy-part";
import { Button } from "@/components/ui/button";
import { useDragOrder } from "@/hooks/use-drag-order";
import { useMove } from "@/hooks/use-move";
import { useRename } from "@/hooks/use-rename";
import { followerOf, type Side } from "@/lib/order";
import { useDeleteTask, useToggleTask, useUpdateFact } from "./mutations";
import { type Task, taskKeys } from "./queries";
import { QuickAdd } from "./quick-add";
import { type TaskActions, TaskRow } from "./task-row";

const TaskDialog = lazyDialog(() => import("./task-dialog").then(({ TaskDialog }) => TaskDialog));

interface TaskListProps {
  planId: string;
  priority: { id: string; title: string };
  /** This priority's tasks, in their order. The same list while nothing of it changes. */
  tasks: Task[];
  editable: boolean;
  /** Sorted by something else than their own order, which cannot be changed then. */
  sorted: boolean;
  /** What stands there instead of tasks. */
  whenEmpty: string;
}

type OpenDialog = "create" | "edit" | "delete" | null;

/** The tasks of one priority: what is to be done, then what is done. */
export const TaskList = memo(function TaskList({
  planId,
  priority,
  tasks,
  editable,
  sorted,
  whenEmpty,
}: TaskListProps) {
  const { mutate: toggle } = useToggleTask(planId);
  const { mutateAsync: updateFact } = useUpdateFact(planId);
  const deleteTask = useDeleteTask(planId);
  const rename = useRename({ table: "tasks", thing: "task", refetches: [taskKeys.list(planId)] });
  const move = useMove({ table: "tasks", thing: "task", listKey: taskKeys.list(planId) });
  const [moved, setMoved] = useState("");
  // As it is when something is moved, not when the actions were made.
  const listed = useRef(tasks);
  listed.current = tasks;
  const [openDialog, setOpenDialog] = useState<OpenDialog>(null);
  // Outlives its dialog, which still shows it while it fades, and its row, should a colleague delete it meanwhile.
  const [subject, setSubject] = useState<Task | null>(null);
  const current = subject && (tasks.find(({ id }) => id === subject.id) ?? subject);
  const closeUnless = (open: boolean) => open || setOpenDialog(null);

  const place = useCallback(
    (id: string, targetId: string, side: Side) => {
      const [task, target] = [id, targetId].map((wanted) => listed.current.find((one) => one.id === wanted));
      if (!task || !target) return;
      move({ id, beforeId: followerOf(listed.current, id, targetId, side) });
      setMoved(`“${task.title}” was moved ${side} “${target.title}”.`);
    },
    [move],
  );
  const drag = useDragOrder(place);

  const actions = useMemo<TaskActions | null>(() => {
    if (!editable) return null;
    const show = (dialog: OpenDialog) => (task: Task) => {
      setSubject(task);
      setOpenDialog(dialog);
    };
    return {
      toggle: (task, isCompleted) => toggle({ id: task.id, isCompleted }),
      edit: show("edit"),
      rename: ({ id }, title, seen) => rename({ id, title, seen }),
      remove: show("delete"),
      canMove: !sorted,
      saveFact: (base, fact) => updateFact({ base, fact }),
      move: (task, step) => {
        if (sorted) return;
        const group = listed.current.filter((one) => one.is_completed === task.is_completed);
        const neighbour = group[group.findIndex(({ id }) => id === task.id) + (step === "up" ? -1 : 1)];
        if (neighbour) place(task.id, neighbour.id, step === "up" ? "before" : "after");
      },
      add: () => setOpenDialog("create"),
    };
  }, [editable, sorted, toggle, rename, updateFact, place]);

  const groups = [
    { name: "To Do", tasks: tasks.filter((task) => !task.is_completed) },
    { name: "Completed", tasks: tasks.filter((task) => task.is_completed) },
  ].filter((group) => group.tasks.length > 0);

  return (
    <>
      {tasks.length === 0 ? (
        <p className="px-4 py-3 text-muted-foreground text-sm">{whenEmpty}</p>
      ) : (
        <table className="w-full text-sm">
          <caption className="sr-only">Tasks of {priority.title}</caption>
          <thead className="sr-only">
            <tr>
              <th scope="col">Status</th>
              <th scope="col">Details</th>
              <th scope="col">Actions</th>
            </tr>
          </thead>
          {/* One body for both groups: a row that moves keeps its place in the document's tree, and so the focus. */}
          <tbody {...(editable && !sorted && drag)}>
            {groups.map((group) => [
              <tr key={group.name} className="border-t first:border-t-0">
                <th
                  scope="colgroup"
                  colSpan={3}
                  className="bg-surface px-4 py-1.5 text-start font-semibold text-muted-foreground text-xs"
                >
                  {group.name} ({group.tasks.length})
                </th>
              </tr>,
              ...group.tasks.map((task, index, { length }) => (
                <TaskRow key={task.id} task={task} first={index === 0} last={index === length - 1} actions={actions} />
              )),
            ])}
          </tbody>
        </table>
      )}
      {editable && (
        <div className="flex flex-wrap items-start gap-x-2 border-t px-2 py-1.5 print:hidden">
          <QuickAdd planId={planId} priority={priority} />
          <Button
            variant="ghost"
            size="small"
            className="text-muted-foreground"
            aria-label={`Add Task to ${priority.title}`}
            onClick={() => setOpenDialog("create")}
          >
            <PlusIcon aria-hidden />
            Add Task
          </Button>
        </div>
      )}
      <p aria-live="polite" className="sr-only">
        {moved}
      </p>
      {editable && (
        <>
          <TaskDialog
            open={openDialog === "create"}
            onOpenChange={closeUnless}
            planId={planId}
            priority={priority}
            task={null}
          />
          {current && (
            <TaskDialog
              open={openDialog === "edit"}
              onOpenChange={closeUnless}
              planId={planId}
              priority={priority}
              task={current}
            />
          )}
          {current && (
            <ConfirmDialog
              open={openDialog === "delete"}
              onOpenChange={closeUnless}
              title="Delete Task"
              description={`Are you sure you want to delete “${current.title}”? You can restore it for 30 days.`}
              confirmLabel="Delete Task"
              busyLabel="Deleting..."
              onConfirm={() => deleteTask.mutateAsync(current.id)}
            />
          )}
        </>
      )}
    </>
  );
});
