import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useChange } from "@/hooks/use-change";
import { useRestoreItem } from "@/hooks/use-restore-item";
import { basalt } from "@/lib/basalt";
import { messageOf } from "@/lib/errors";
import { type Person, peopleQuery } from "@/lib/people";
import { deleteRow, updateRow, updateSeen } from "@/lib/plan-rows";
import { fetchConfirmed, showAtOnce } from "@/lib/shown-at-once";
import { toast } from "@/lib/toast";
import { membersAmong, toNames } from "./names";
import { type Task, taskKeys } from "./queries";
import type { TaskValues } from "./schema";

/** What the form's values are in the database. */
function toColumns({ title, description, measure, dueDate, responsible }: TaskValues, members: Person[]) {
  const names = toNames(responsible);
  return {
    title: title.trim(),
    description: description || null,
    measure_success: measure.trim() || null,
    due_date: dueDate || null,
    responsible_party: names,
    responsible_ids: membersAmong(names, members),
  };
}

/** A task that so far has a title only. */
export const titleOnly = (title: string): TaskValues => ({
  title,
  description: "",
  measure: "",
  dueDate: "",
  responsible: "",
});

export type TaskFact = { due_date: string | null } | { responsible_party: string[] };

export function useCreateTask(planId: string) {
  return useChange({
    done: "Task created",
    failed: "Error creating task",
    refetches: [taskKeys.list(planId), taskKeys.counts()],
    change: async ({ priorityId, values, members }: { priorityId: string; values: TaskValues; members?: Person[] }) => {
      await basalt
        .from("tasks")
        .insert({ ...toColumns(values, members ?? []), priority_id: priorityId, is_completed: false })
        .throwOnError();
      return true;
    },
  });
}

/** Changes a due date or the people where they stand. `false` when another person has changed the task meanwhile. */
export function useUpdateFact(planId: string) {
  const queryClient = useQueryClient();
  const withIds = async (fact: TaskFact) => {
    if (!("responsible_party" in fact)) return fact;
    const people = await queryClient.ensureQueryData(peopleQuery(planId));
    const members = [...people.values()].filter(({ isMember }) => isMember);
    return { ...fact, responsible_ids: membersAmong(fact.responsible_party, members) };
  };
  return useChange({
    failed: "Error updating task",
    refetches: [taskKeys.list(planId), taskKeys.counts()],
    change: async ({ base, fact }: { base: Pick<Task, "id" | "updated_at">; fact: TaskFact }) => {
      const columns = await withIds(fact);
      const saved = await updateSeen("tasks", { id: base.id, updated_at: base.updated_at }, columns, "task");
      if (saved) toast.success("Task updated");
      return saved;
    },
  });
}

/** `false` when the task was changed by another person since `base`; nothing was written then. */
export function useUpdateTask(planId: string) {
  return useChange({
    failed: "Error updating task",
    refetches: [taskKeys.list(planId), taskKeys.counts()],
    change: async ({
      base,
      values,
      members,
    }: {
      base: Pick<Task, "id" | "updated_at">;
      values: TaskValues;
      members: Person[];
    }) => {
      const saved = await updateSeen(
        "tasks",
        { id: base.id, updated_at: base.updated_at },
        toColumns(values, members),
        "task",
      );
      if (saved) toast.success("Task updated");
      return saved;
    },
  });
}

/** Moves a task to the plan's bin, from where it can be restored for 30 days. */
export function useDeleteTask(planId: string) {
  const restore = useRestoreItem(planId);
  return useChange({
    done: (_, id) =>
      toast.success("Task deleted", { action: { label: "Undo", onClick: () => restore.mutate({ id, kind: "task" }) } }),
    failed: "Error deleting task",
    refetches: [taskKeys.list(planId), taskKeys.counts()],
    change: (id: string) => deleteRow("tasks", id, "task"),
  });
}

const toastId = (id: string, isCompleted: boolean) => `toggle-${id}-${isCompleted}`;

/** Checks a task off, or opens it again: at once on the screen, undone there when the server refuses. */
export function useToggleTask(planId: string) {
  const queryClient = useQueryClient();
  const listKey = taskKeys.list(planId);
  const mutationKey = [...listKey, "toggle"];
  const show = (id: string, isCompleted: boolean) =>
    showAtOnce<Task>(queryClient, listKey, (tasks) =>
      tasks.map((task) => (task.id === id ? { ...task, is_completed: isCompleted } : task)),
    );

  const toggle = useMutation({
    mutationKey,
    // One after the other: the last one pressed is the last one written.
    scope: { id: mutationKey.join() },
    mutationFn: ({ id, isCompleted }: { id: string; isCompleted: boolean }) =>
      updateRow("tasks", id, { is_completed: isCompleted }, "task"),
    onMutate: ({ id, isCompleted }) => show(id, isCompleted),
    onSuccess: (_data, { id, isCompleted }) => {
      // Under an id of its own: "Undo" takes its toast away, and what is said under the same id meanwhile goes with it.
      toast.dismiss(toastId(id, !isCompleted));
      toast.success(isCompleted ? "Task completed" : "Task reopened", {
        id: toastId(id, isCompleted),
        action: { label: "Undo", onClick: () => toggle.mutate({ id, isCompleted: !isCompleted }) },
      });
    },
    onError: (error, { id, isCompleted }) => {
      show(id, !isCompleted);
      toast.error("Error updating task status", { id: `toggle-failed-${id}`, description: messageOf(error) });
    },
    onSettled: () => {
      void queryClient.invalidateQueries({ queryKey: taskKeys.counts() });
      return fetchConfirmed(queryClient, listKey);
    },
  });
  return toggle;
}
