import { PlusIcon } from "lucide-react";
import { useMemo, useState } from "react";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { lazyDialog } from "@/components/lazy-part";
import { Button } from "@/components/ui/button";
import { useRename } from "@/hooks/use-rename";
import { useDeleteTask, useToggleTask } from "./mutations";
import { type Task, taskKeys } from "./queries";
import { type TaskActions, TaskRow } from "./task-row";

const TaskDialog = lazyDialog(() => import("./task-dialog").then(({ TaskDialog }) => TaskDialog));

interface TaskListProps {
  planId: string;
  priority: { id: string; title: string };
  /** This priority's tasks, newest first. */
  tasks: Task[];
  editable: boolean;
  /** What stands there instead of tasks. */
  whenEmpty: string;
}

type OpenDialog = "create" | "edit" | "delete" | null;

/** The tasks of one priority: what is to be done, then what is done. */
export function TaskList({ planId, priority, tasks, editable, whenEmpty }: TaskListProps) {
  const { mutate: toggle } = useToggleTask(planId);
  const deleteTask = useDeleteTask(planId);
  const rename = useRename({ table: "tasks", thing: "task", refetches: [taskKeys.list(planId)] });
  const [openDialog, setOpenDialog] = useState<OpenDialog>(null);
  // Outlives its dialog, which still shows it while it fades, and its row, should a colleague delete it meanwhile.
  const [subject, setSubject] = useState<Task | null>(null);
  const current = subject && (tasks.find(({ id }) => id === subject.id) ?? subject);
  const closeUnless = (open: boolean) => open || setOpenDialog(null);

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
      add: () => setOpenDialog("create"),
    };
  }, [editable, toggle, rename]);

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
          <tbody>
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
              ...group.tasks.map((task) => <TaskRow key={task.id} task={task} actions={actions} />),
            ])}
          </tbody>
        </table>
      )}
      {editable && (
        <div className="border-t px-2 py-1.5 print:hidden">
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
              description={`Are you sure you want to delete “${current.title}”? This action cannot be undone.`}
              confirmLabel="Delete Task"
              busyLabel="Deleting..."
              onConfirm={() => deleteTask.mutateAsync(current.id)}
            />
          )}
        </>
      )}
    </>
  );
}
