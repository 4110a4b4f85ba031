import { zodResolver } from "@hookform/resolvers/zod";
import { type ReactNode, useId, useState } from "react";
import { ConflictNote } from "@/components/conflict-note";
import { FormField } from "@/components/form-field";
import { RichText } from "@/components/rich-text";
import { RichTextField } from "@/components/rich-text-field";
import { Dialog, DialogContent, DialogForm } from "@/components/ui/dialog";
import { DateInput, Input } from "@/components/ui/input";
import { useRowForm } from "@/hooks/use-row-form";
import { formatDay } from "@/lib/dates";
import { titleLimit } from "@/lib/titles";
import { fillPlan } from "./fill-plan";
import { useCreatePlan, useUpdatePlan } from "./mutations";
import type { Plan } from "./queries";
import { type PlanValues, planSchema } from "./schema";
import { prioritiesOf, type TemplateId, templates } from "./templates";

interface CreatePlanDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  userId: string;
  onCreated: (planId: string) => void;
}

export function CreatePlanDialog({ open, onOpenChange, userId, onCreated }: CreatePlanDialogProps) {
  const create = useCreatePlan(userId);
  const [template, setTemplate] = useState<TemplateId | null>(null);
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
            const planId = await create.mutateAsync({
              plan: { title, description: description || null },
              fill: template && ((id) => fillPlan(id, template)),
            });
            onOpenChange(false);
            onCreated(planId);
            return true;
          }}
        >
          <TemplateChoice chosen={template} onChoose={setTemplate} />
        </PlanForm>
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
  /** More fields. */
  children?: ReactNode;
}

function PlanForm({ plan, submitLabel, busyLabel, onSubmit, children }: PlanFormProps) {
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
      {children}
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

interface TemplateChoiceProps {
  chosen: TemplateId | null;
  onChoose: (template: TemplateId | null) => void;
}

const templateIds = Object.keys(templates) as TemplateId[];

/** What a new plan begins with. */
function TemplateChoice({ chosen, onChoose }: TemplateChoiceProps) {
  const name = useId();
  const choices = [
    { id: null, label: "An empty plan", content: "" },
    ...templateIds.map((id) => ({ id, label: templates[id].name, content: contentOf(id) })),
  ];
  return (
    <fieldset>
      <legend className="mb-2 font-medium text-sm">Start with</legend>
      <div className="grid gap-2 sm:grid-cols-2">
        {choices.map(({ id, label, content }) => (
          <label
            key={label}
            className="flex min-h-11 cursor-pointer items-start gap-3 rounded-md border p-3 text-sm has-checked:border-primary has-checked:bg-primary-soft has-focus-visible:outline-2 has-focus-visible:outline-ring"
          >
            <input
              type="radio"
              name={name}
              checked={id === chosen}
              onChange={() => onChoose(id)}
              className="mt-0.5 size-4 shrink-0 accent-primary"
            />
            <span>
              <span className="block font-medium">{label}</span>
              {content && <span className="block text-muted-foreground text-xs">{content}</span>}
            </span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

function contentOf(id: TemplateId) {
  const priorities = prioritiesOf(id);
  const tasks = priorities.reduce((sum, priority) => sum + priority.tasks.length, 0);
  return `${priorities.length} priorities, ${tasks} tasks`;
}

function valuesOf(plan: Plan | null): PlanValues {
  return {
    title: plan?.title ?? "",
    description: plan?.description ?? "",
    startDate: plan?.start_date ?? "",
    estimatedEndDate: plan?.estimated_end_date ?? "",
  };
}
