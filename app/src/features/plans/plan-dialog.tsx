import { zodResolver } from "@hookform/resolvers/zod";
import { useForm } from "react-hook-form";
import { FormField } from "@/components/form-field";
import { SubmitButton } from "@/components/submit-button";
import { Button } from "@/components/ui/button";
import { Dialog, DialogContent, DialogFooter, DialogHeader } from "@/components/ui/dialog";
import { Input, Textarea } from "@/components/ui/input";
import { htmlToText, textToHtml } from "@/lib/html-text";
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
      <DialogContent>
        <DialogHeader title="Create Plan" description="Give your plan a name. You can set its dates later." />
        <PlanForm
          submitLabel="Create Plan"
          busyLabel="Creating..."
          onCancel={() => onOpenChange(false)}
          onSubmit={async ({ title, description }) => {
            await create.mutateAsync({ title, description: textToHtml(description) });
            onOpenChange(false);
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
      <DialogContent>
        <DialogHeader title="Edit Plan" description="Change the plan's name, description and dates." />
        <PlanForm
          plan={plan}
          submitLabel="Update Plan"
          busyLabel="Updating..."
          onCancel={() => onOpenChange(false)}
          onSubmit={async (values) => {
            await update.mutateAsync({
              id: plan.id,
              title: values.title,
              description: editedDescription(plan.description, values.description),
              start_date: values.startDate || null,
              estimated_end_date: values.estimatedEndDate || null,
            });
            onOpenChange(false);
          }}
        />
      </DialogContent>
    </Dialog>
  );
}

/** The form edits words. Where they were not changed, the formatting they came with stays. */
export function editedDescription(before: string | null, text: string) {
  return text.trim() === htmlToText(before) ? before : textToHtml(text);
}

interface PlanFormProps {
  /** What is being edited; without it the form is for a new plan, which has no dates yet. */
  plan?: Plan;
  submitLabel: string;
  busyLabel: string;
  onCancel: () => void;
  /** Rejects when it failed, having told the person; what they typed stays. */
  onSubmit: (values: PlanValues) => Promise<void>;
}

function PlanForm({ plan, submitLabel, busyLabel, onCancel, onSubmit }: PlanFormProps) {
  const { formState, handleSubmit, register } = useForm<PlanValues>({
    resolver: zodResolver(planSchema),
    defaultValues: {
      title: plan?.title ?? "",
      description: htmlToText(plan?.description ?? null),
      startDate: plan?.start_date ?? "",
      estimatedEndDate: plan?.estimated_end_date ?? "",
    },
  });
  const { errors, isSubmitting } = formState;
  const submit = handleSubmit((values) => onSubmit(values).catch(() => undefined));

  return (
    <form noValidate onSubmit={(event) => void submit(event)}>
      <fieldset disabled={isSubmitting} className="grid gap-5">
        <FormField label="Title" error={errors.title?.message} required>
          <Input autoComplete="off" placeholder="Five-year outreach plan" {...register("title")} />
        </FormField>
        <FormField label="Description" error={errors.description?.message}>
          <Textarea placeholder="What is this plan for, and for whom?" {...register("description")} />
        </FormField>
        {plan && (
          <div className="grid gap-5 sm:grid-cols-2">
            <FormField label="Start Date" error={errors.startDate?.message}>
              <Input type="date" {...register("startDate")} />
            </FormField>
            <FormField label="Estimated End Date" error={errors.estimatedEndDate?.message}>
              <Input type="date" {...register("estimatedEndDate")} />
            </FormField>
          </div>
        )}
        <DialogFooter>
          <Button variant="secondary" onClick={onCancel}>
            Cancel
          </Button>
          <SubmitButton busy={isSubmitting} busyLabel={busyLabel}>
            {submitLabel}
          </SubmitButton>
        </DialogFooter>
      </fieldset>
    </form>
  );
}
