import { zodResolver } from "@hookform/resolvers/zod";
import { Controller } from "react-hook-form";
import { FormField } from "@/components/form-field";
import { StaleAlert } from "@/components/stale-alert";
import { Dialog, DialogContent, DialogForm } from "@/components/ui/dialog";
import { Input, Textarea } from "@/components/ui/input";
import { Select } from "@/components/ui/select";
import { Switch } from "@/components/ui/switch";
import { useRowForm } from "@/hooks/use-row-form";
import { bytesPerMegabyte, type SubscriptionPlan, useAddPlan, useUpdatePlan } from "./queries";
import {
  type Interval,
  intervals,
  type PlanFormInput,
  type PlanFormValues,
  parseFeatures,
  planFormSchema,
} from "./schema";
import { FieldError, readStripePrice } from "./stripe-price";

interface DialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
}

export function AddPlanDialog({ open, onOpenChange }: DialogProps) {
  const add = useAddPlan();
  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent
        size="wide"
        title="Add Subscription Plan"
        description="The price itself is made at Stripe; its id connects this plan with it."
      >
        <PlanForm
          plan={null}
          submitLabel="Save Plan"
          onSubmit={async (values) => {
            await add.mutateAsync(values);
            onOpenChange(false);
          }}
        />
      </DialogContent>
    </Dialog>
  );
}

export function EditPlanDialog({ open, onOpenChange, plan }: DialogProps & { plan: SubscriptionPlan }) {
  const update = useUpdatePlan();
  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent
        size="wide"
        title="Edit Subscription Plan"
        description="Subscribers go on paying the price that they subscribed to."
      >
        <PlanForm
          plan={plan}
          submitLabel="Update Plan"
          onSubmit={async (values, base) => {
            if (!base) return;
            await update.mutateAsync({ base, values });
            onOpenChange(false);
          }}
        />
      </DialogContent>
    </Dialog>
  );
}

interface PlanFormProps {
  plan: SubscriptionPlan | null;
  submitLabel: string;
  /** Rejects when it failed, having told the person. `base` is the version that the form started from. */
  onSubmit: (values: PlanFormValues, base: SubscriptionPlan | null) => Promise<void>;
}

function PlanForm({ plan, submitLabel, onSubmit }: PlanFormProps) {
  const { conflict, control, formState, getValues, register, setError, setValue, submit, watch } = useRowForm({
    row: plan,
    resolver: zodResolver(planFormSchema),
    inputOf,
    save: ({ base, values }: { base: SubscriptionPlan | null; values: PlanFormValues }) =>
      onSubmit(values, base).catch((error: unknown) => {
        if (error instanceof FieldError) setError(error.field, { message: error.message }, { shouldFocus: true });
        throw error;
      }),
  });
  const { errors, isDirty, isSubmitting } = formState;
  const features = parseFeatures(watch("features"));

  /** Price and interval come from Stripe. Saving checks them again, so a failure matters only then. */
  async function fillFromStripe() {
    const priceId = getValues("stripePriceId").trim();
    if (priceId === "" || priceId === plan?.stripe_price_id) return;
    try {
      const price = await readStripePrice(priceId);
      if (!price || getValues("stripePriceId").trim() !== priceId) return;
      const change = { shouldDirty: true, shouldValidate: true };
      setValue("price", String(price.cents / 100), change);
      setValue("interval", price.interval, change);
    } catch (error) {
      if (error instanceof FieldError && getValues("stripePriceId").trim() === priceId) {
        setError(error.field, { message: error.message });
      }
    }
  }

  return (
    <DialogForm
      onSubmit={(event) => void submit(event)}
      busy={isSubmitting}
      dirty={isDirty}
      submitLabel={submitLabel}
      busyLabel="Saving..."
    >
      {conflict && <StaleAlert {...conflict} />}
      <FormField
        label="Plan Name"
        error={errors.name?.message}
        limit={{ used: watch("name").length, of: 500 }}
        required
      >
        <Input autoComplete="off" placeholder="e.g., Basic Plan" {...register("name")} />
      </FormField>
      <FormField
        label="Description"
        error={errors.description?.message}
        limit={{ used: watch("description").length, of: 5000 }}
      >
        <Textarea {...register("description")} />
      </FormField>
      <div className="grid gap-5 sm:grid-cols-2">
        <FormField label="Price" error={errors.price?.message} required>
          <Input type="number" inputMode="decimal" min={0} step={0.01} {...register("price")} />
        </FormField>
        <FormField label="Billing Interval" error={errors.interval?.message} required>
          <Select {...register("interval")}>
            {Object.entries(intervals).map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </Select>
        </FormField>
      </div>
      <FormField
        label="Stripe Price ID"
        error={errors.stripePriceId?.message}
        hint="Price and interval are read from Stripe."
        required
      >
        <Input
          autoComplete="off"
          spellCheck={false}
          autoCapitalize="none"
          {...register("stripePriceId", { onBlur: () => void fillFromStripe() })}
        />
      </FormField>
      <fieldset className="grid gap-2">
        <legend className="mb-2 font-medium text-sm">Limits (leave empty for none)</legend>
        <div className="grid gap-5 sm:grid-cols-3">
          <FormField label="Plans" error={errors.maxPlans?.message}>
            <Input inputMode="numeric" autoComplete="off" {...register("maxPlans")} />
          </FormField>
          <FormField label="People per plan" error={errors.maxMembers?.message}>
            <Input inputMode="numeric" autoComplete="off" {...register("maxMembers")} />
          </FormField>
          <FormField label="Files in MB" error={errors.maxMegabytes?.message}>
            <Input inputMode="numeric" autoComplete="off" {...register("maxMegabytes")} />
          </FormField>
        </div>
      </fieldset>
      <FormField
        label="Features (JSON Array)"
        error={errors.features?.message}
        hint={
          <>
            Enter features as a JSON array of strings
            <span role="status" className={features ? "block" : "block text-warning"}>
              {features ? countOf(features) : "This is no JSON array of strings: it will be saved as an empty list."}
            </span>
          </>
        }
      >
        <Textarea spellCheck={false} className="font-mono text-sm" {...register("features")} />
      </FormField>
      <Controller
        control={control}
        name="active"
        render={({ field: { value, onChange, onBlur, ref } }) => (
          <FormField label="Active" layout="inline" hint="Is this plan currently available for purchase?">
            <Switch ref={ref} checked={value} onCheckedChange={onChange} onBlur={onBlur} />
          </FormField>
        )}
      />
    </DialogForm>
  );
}

function countOf(features: string[]) {
  return features.length === 1 ? "1 feature" : `${features.length} features`;
}

function inputOf(plan: SubscriptionPlan | null): PlanFormInput {
  return {
    name: plan?.name ?? "",
    description: plan?.description ?? "",
    price: plan ? String(plan.price) : "",
    interval: isInterval(plan?.interval) ? plan.interval : "month",
    stripePriceId: plan?.stripe_price_id ?? "",
    features: JSON.stringify(plan?.features ?? [], null, 2),
    active: plan?.active ?? true,
    maxPlans: plan?.max_plans?.toString() ?? "",
    maxMembers: plan?.max_members?.toString() ?? "",
    maxMegabytes: plan?.max_bytes == null ? "" : String(Math.max(1, Math.round(plan.max_bytes / bytesPerMegabyte))),
  };
}

function isInterval(text: string | undefined): text is Interval {
  return text !== undefined && text in intervals;
}
