import { zodResolver } from "@hookform/resolvers/zod";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useController } from "react-hook-form";
import { ConflictNote } from "@/components/conflict-note";
import { FormField } from "@/components/form-field";
import { RichText } from "@/components/rich-text";
import { RichTextField } from "@/components/rich-text-field";
import { Dialog, DialogContent, DialogForm } from "@/components/ui/dialog";
import { DateInput, Input, Textarea } from "@/components/ui/input";
import { useRowForm } from "@/hooks/use-row-form";
import { formatDay } from "@/lib/dates";
import { peopleQuery } from "@/lib/people";
import { titleLimit } from "@/lib/titles";
import { taskLimits } from "./limits";
import { useCreateTask, useUpdateTask } from "./mutations";
import { NamesInput } from "./names-input";
import type { Task } from "./queries";
import { type TaskValues, taskSchema } from "./schema";

interface TaskDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  planId: string;
  priority: { id: string; title: string };
  /** What is being edited, as it is now; null for a new task. */
  task: Task | null;
}

export function TaskDialog({ open, onOpenChange, ...props }: TaskDialogProps) {
  const texts = props.task
    ? { title: "Edit Task", description: "Change what is to be done, by whom and until when." }
    : { title: "Add Task", description: `A new task for “${props.priority.title}”` };
  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent size="wide" {...texts}>
        <TaskForm {...props} onSaved={() => onOpenChange(false)} />
      </DialogContent>
    </Dialog>
  );
}

type TaskFormProps = Pick<TaskDialogProps, "planId" | "priority" | "task"> & { onSaved: () => void };

function TaskForm({ planId, priority, task, onSaved }: TaskFormProps) {
  const create = useCreateTask(planId);
  const update = useUpdateTask(planId);
  const { data: people } = useQuery(peopleQuery(planId));
  const members = useMemo(() => [...(people?.values() ?? [])].filter(({ isMember }) => isMember), [people]);
  const { control, formState, register, watch, formProps, conflict } = useRowForm({
    row: task,
    inputOf: valuesOf,
    resolver: zodResolver(taskSchema),
    save: async ({ base, values }: { base: Task | null; values: TaskValues }) => {
      const saved = base
        ? await update.mutateAsync({ base, values, members })
        : await create.mutateAsync({ priorityId: priority.id, values, members });
      if (saved) onSaved();
      return saved;
    },
  });
  const { errors, isSubmitting } = formState;
  const responsible = useController({ control, name: "responsible" });

  return (
    <DialogForm
      {...formProps}
      submitLabel={task ? "Update Task" : "Create Task"}
      busyLabel={task ? "Updating..." : "Creating..."}
    >
      {conflict && <ConflictNote thing="task" {...conflict} rows={rowsOf(conflict.theirs)} />}
      <FormField
        label="Focus Area"
        error={errors.title?.message}
        limit={{ used: watch("title").length, of: titleLimit }}
        required
      >
        <Input autoComplete="off" placeholder="Find a hall in Eastfield" {...register("title")} />
      </FormField>
      <RichTextField
        control={control}
        name="description"
        label="Tactical Steps"
        disabled={isSubmitting}
        placeholder="The steps that lead there"
      />
      <FormField
        label="Measure of Success"
        error={errors.measure?.message}
        limit={{ used: watch("measure").length, of: taskLimits.measure }}
      >
        <Textarea placeholder="How will you know it worked?" className="min-h-16" {...register("measure")} />
      </FormField>
      <div className="grid grid-cols-[repeat(auto-fit,minmax(min(100%,12rem),1fr))] gap-5">
        <FormField label="Due Date" error={errors.dueDate?.message}>
          <DateInput {...register("dueDate")} />
        </FormField>
        <FormField label="Responsible Party" hint="Names, separated by commas" error={errors.responsible?.message}>
          <NamesInput people={members} placeholder="Maya Fischer, Tom Okafor" {...responsible.field} />
        </FormField>
      </div>
    </DialogForm>
  );
}

function valuesOf(task: Task | null): TaskValues {
  return {
    title: task?.title ?? "",
    description: task?.description ?? "",
    measure: task?.measure_success ?? "",
    dueDate: task?.due_date ?? "",
    responsible: task?.responsible_party.join(", ") ?? "",
  };
}

const rowsOf = ({ title, description, measure, dueDate, responsible }: TaskValues) => [
  { name: "Focus Area", value: title },
  { name: "Tactical Steps", value: description && <RichText html={description} /> },
  { name: "Measure of Success", value: measure },
  { name: "Due Date", value: dueDate && formatDay(dueDate) },
  { name: "Responsible Party", value: responsible },
];
