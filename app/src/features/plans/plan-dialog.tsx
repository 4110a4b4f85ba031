import { zodResolver } from "@hookform/resolvers/zod";
import { ConflictNote } from "@/components/conflict-note";
import { FormField } from "@/components/form-field";
import { RichText } from "@/components/rich-text";
import { RichTextField } from "@/components/rich-text-field";
import { Dialog, DialogContent, DialogForm } from "@/components/ui/dialog";
import { DateInput, Input } from "@/components/ui/input";
import { useRowForm } from "@/hooks/use-row-form";
import { formatDay } from "@/lib/dates";
import { titleLimit } from "@/lib/titles";
import { useCreatePlan, useUpdatePlan } from "./mutations";
import type { Plan } from "./queries";
import { type PlanValues, planSchema } from "./schema";

interface CreatePlanDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  userId: string;
}

export function CreatePlanDialog({ open, onOpenChange, userId }: CreatePlanDialogProps) {
  const create = useCreatePlan(userId);
  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent
        size="wide"
        title="Create Plan"
        description="Give your plan a name. You can change all of this later."
      >
        <PlanForm
          plan={null}
          submitLabel="Create Plan"
          busyLabel="Creating..."
          onSubmit={async ({ title, description }) => {
            await create.mutateAsync({ title, description: description || null });
            onOpenChange(false);
            return true;
          }}
        />
      </DialogContent>
    </Dialog>
  );
}

interface EditPlanDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  plan: Plan;
}

export function EditPlanDialog({ open, onOpenChange, plan }: EditPlanDialogProps) {
  const update = useUpdatePlan();
  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent size="wide" title="Edit Plan" description="Change the plan's name, description and dates.">
        <PlanForm
          plan={plan}
          submitLabel="Update Plan"
          busyLabel="Updating..."
          onSubmit={async (values, base) => {
            const saved = await update.mutateAsync({ base: base ?? plan, values });
            if (saved) onOpenChange(false);
            return saved;
          }}
        />
      </DialogContent>
    </Dialog>
  );
}

interface PlanFormProps {
  /** What is being edited, as it is now; null for a new plan, which has no dates yet. */
  plan: Plan | null;
  submitLabel: string;
  busyLabel: string;
  /** Whether it was saved. Rejects when that failed, having told the person; what they typed stays. */
  onSubmit: (values: PlanValues, base: Plan | null) => Promise<boolean>;
}

function PlanForm({ plan, submitLabel, busyLabel, onSubmit }: PlanFormProps) {
  const { control, formState, register, watch, formProps, conflict } = useRowForm({
    row: plan,
    inputOf: valuesOf,
    resolver: zodResolver(planSchema),
    save: ({ base, values }: { base: Plan | null; values: PlanValues }) => onSubmit(values, base),
  });
  const { errors, isSubmitting } = formState;

  return (
    <DialogForm {...formProps} submitLabel={submitLabel} busyLabel={busyLabel}>
      {conflict && (
        <ConflictNote
          thing="plan"
          {...conflict}
          rows={[
            { name: "Title", value: conflict.theirs.title },
            { name: "Start Date", value: conflict.theirs.startDate && formatDay(conflict.theirs.startDate) },
            {
              name: "Estimated End Date",
              value: conflict.theirs.estimatedEndDate && formatDay(conflict.theirs.estimatedEndDate),
            },
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
        <Input autoComplete="off" placeholder="Five-year outreach plan" {...register("title")} />
      </FormField>
      {plan && (
        <div className="grid grid-cols-[repeat(auto-fit,minmax(min(100%,10rem),1fr))] gap-5">
          <FormField label="Start Date" error={errors.startDate?.message}>
            <DateInput {...register("startDate")} />
          </FormField>
          <FormField label="Estimated End Date" error={errors.estimatedEndDate?.message}>
            <DateInput {...register("estimatedEndDate")} />
          </FormField>
        </div>
      )}
      <RichTextField
        control={control}
        name="description"
        label="Description"
        disabled={isSubmitting}
        placeholder="What is this plan for, and for whom?"
      />
    </DialogForm>
  );
}

function valuesOf(plan: Plan | null): PlanValues {
  return {
    title: plan?.title ?? "",
    description: plan?.description ?? "",
    startDate: plan?.start_date ?? "",
    estimatedEndDate: plan?.estimated_end_date ?? "",
  };
}
