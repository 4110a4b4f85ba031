import { zodResolver } from "@hookform/resolvers/zod";
import { ConflictNote } from "@/components/conflict-note";
import { FormField } from "@/components/form-field";
import { RichText } from "@/components/rich-text";
import { RichTextField } from "@/components/rich-text-field";
import { Dialog, DialogContent, DialogForm } from "@/components/ui/dialog";
import { Input } from "@/components/ui/input";
import { useRowForm } from "@/hooks/use-row-form";
import { titleLimit } from "@/lib/titles";
import { useCreatePriority, useUpdatePriority } from "./mutations";
import type { Priority } from "./queries";
import { type PriorityValues, prioritySchema } from "./schema";

interface PriorityDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  planId: string;
  /** What is being edited, as it is now; null for a new priority. */
  priority: Priority | null;
}

export function PriorityDialog({ open, onOpenChange, planId, priority }: PriorityDialogProps) {
  const texts = priority
    ? { title: "Edit Priority", description: "Change the priority's title and description." }
    : { title: "Create Priority", description: "What this plan is to achieve; tasks come next." };
  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent size="wide" {...texts}>
        <PriorityForm planId={planId} priority={priority} onSaved={() => onOpenChange(false)} />
      </DialogContent>
    </Dialog>
  );
}

type PriorityFormProps = Pick<PriorityDialogProps, "planId" | "priority"> & { onSaved: () => void };

function PriorityForm({ planId, priority, onSaved }: PriorityFormProps) {
  const create = useCreatePriority(planId);
  const update = useUpdatePriority(planId);
  const { control, formState, register, watch, formProps, conflict } = useRowForm({
    row: priority,
    inputOf: valuesOf,
    resolver: zodResolver(prioritySchema),
    save: async ({ base, values }: { base: Priority | null; values: PriorityValues }) => {
      const saved = base ? await update.mutateAsync({ base, values }) : await create.mutateAsync(values);
      if (saved) onSaved();
      return saved;
    },
  });
  const { errors, isSubmitting } = formState;
  return (
    <DialogForm
      {...formProps}
      submitLabel={priority ? "Update Priority" : "Create Priority"}
      busyLabel={priority ? "Updating..." : "Creating..."}
    >
      {conflict && (
        <ConflictNote
          thing="priority"
          {...conflict}
          rows={[
            { name: "Title", value: conflict.theirs.title },
            {
              name: "Description",
              value: conflict.theirs.description && <RichText html={conflict.theirs.description} />,
            },
          ]}
        />
      )}
      <FormField
        label="Title"
        error={errors.title?.message}
        limit={{ used: watch("title").length, of: titleLimit }}
        required
      >
        <Input autoComplete="off" placeholder="Open four neighborhood hubs" {...register("title")} />
      </FormField>
      <RichTextField
        control={control}
        name="description"
        label="Description"
        disabled={isSubmitting}
        placeholder="Why does this matter, and what will be different?"
      />
    </DialogForm>
  );
}

function valuesOf(priority: Priority | null): PriorityValues {
  return { title: priority?.title ?? "", description: priority?.description ?? "" };
}
