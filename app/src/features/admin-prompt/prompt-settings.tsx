import { zodResolver } from "@hookform/resolvers/zod";
import { useQuery } from "@tanstack/react-query";
import { CheckIcon } from "lucide-react";
import { FormField } from "@/components/form-field";
import { Loaded } from "@/components/loaded";
import { Preview } from "@/components/preview";
import { StaleAlert } from "@/components/stale-alert";
import { SubmitButton } from "@/components/submit-button";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { Input, Textarea } from "@/components/ui/input";
import { UnsavedGuard } from "@/components/unsaved-guard";
import { useRowForm } from "@/hooks/use-row-form";
import { deadImage, imageLoads } from "@/lib/image-loads";
import { safeUrl } from "@/lib/safe-url";
import { adminPromptQuery, type PromptRow, useSavePrompt } from "./queries";
import {
  featuresOf,
  linesOf,
  type PromptFormInput,
  type PromptFormValues,
  promptFormSchema,
  standardPrompt,
} from "./schema";

/** The words of the upgrade prompt, beside how it will look. */
export function PromptSettings() {
  const prompt = useQuery(adminPromptQuery());
  return (
    <Card className="p-5 sm:p-6">
      <h2 className="text-heading">Subscription Prompt</h2>
      <p className="mt-1 text-muted-foreground text-sm">
        Signed-in people without a subscription are asked once, a while after they came.
      </p>
      <div className="mt-6">
        <Loaded
          query={prompt}
          loading="Loading subscription prompt..."
          failed="Failed to load subscription prompt content."
        >
          {(row) => <PromptForm row={row} />}
        </Loaded>
      </div>
    </Card>
  );
}

function PromptForm({ row }: { row: PromptRow | null }) {
  const save = useSavePrompt();
  const { conflict, formState, register, setError, submit, watch } = useRowForm({
    row,
    resolver: zodResolver(promptFormSchema),
    inputOf,
    save: async (change: { base: PromptRow | null; values: PromptFormValues }) => {
      const { imageUrl } = change.values;
      // One that was there before may be saved along with other changes.
      if (imageUrl && imageUrl !== change.base?.image_url && !(await imageLoads(imageUrl))) {
        setError("imageUrl", { type: "server", message: deadImage }, { shouldFocus: true });
        throw new Error(deadImage);
      }
      return save.mutateAsync(change);
    },
  });
  const { errors, isDirty, isSubmitting } = formState;
  const input = watch();

  return (
    <div className="grid gap-8 lg:grid-cols-2">
      <form noValidate onSubmit={(event) => void submit(event)}>
        <fieldset disabled={isSubmitting} className="grid min-w-0 gap-5">
          {conflict && <StaleAlert {...conflict} />}
          <FormField label="Title" error={errors.title?.message} limit={{ used: input.title.length, of: 500 }}>
            <Input placeholder={standardPrompt.title} {...register("title")} />
          </FormField>
          <FormField
            label="Subtitle"
            error={errors.subtitle?.message}
            limit={{ used: input.subtitle.length, of: 2000 }}
          >
            <Textarea className="min-h-16" {...register("subtitle")} />
          </FormField>
          <FormField label="Image URL" error={errors.imageUrl?.message}>
            <Input type="url" dir="ltr" placeholder="https://" {...register("imageUrl")} />
          </FormField>
          <FormField
            label="Features"
            error={errors.features?.message}
            hint="One per line. Without any, the standard list is shown."
          >
            <Textarea {...register("features")} />
          </FormField>
          <div className="grid gap-5 sm:grid-cols-2">
            <FormField label="Primary Button Text" error={errors.primaryButtonText?.message}>
              <Input placeholder={standardPrompt.primaryButtonText} {...register("primaryButtonText")} />
            </FormField>
            <FormField label="Secondary Button Text" error={errors.secondaryButtonText?.message}>
              <Input placeholder={standardPrompt.secondaryButtonText} {...register("secondaryButtonText")} />
            </FormField>
          </div>
          <FormField
            label="Delay (seconds)"
            error={errors.delaySeconds?.message}
            hint={`From 0 to 300. 0 is the standard of ${standardPrompt.delaySeconds} seconds.`}
          >
            <Input type="number" inputMode="numeric" min={0} max={300} step={1} {...register("delaySeconds")} />
          </FormField>
          <SubmitButton busy={isSubmitting} busyLabel="Saving..." className="justify-self-start">
            Save Prompt
          </SubmitButton>
        </fieldset>
        <UnsavedGuard when={isDirty && !isSubmitting} />
      </form>
      <PromptPreview input={input} />
    </div>
  );
}

function PromptPreview({ input }: { input: PromptFormInput }) {
  const image = safeUrl(input.imageUrl);
  const features = linesOf(input.features);
  return (
    <Preview label="Preview" className="grid place-items-center bg-[oklch(0.16_0.02_220/0.5)] p-5 sm:p-8">
      <div className="w-full max-w-sm overflow-hidden rounded-xl border bg-surface-raised shadow-overlay">
        <div className="grid gap-1.5 px-5 pt-5 pb-4">
          <p className="text-heading [overflow-wrap:anywhere]">{input.title || standardPrompt.title}</p>
          {input.subtitle && <p className="text-muted-foreground text-sm [overflow-wrap:anywhere]">{input.subtitle}</p>}
        </div>
        <div className="grid gap-5 px-5 pb-5">
          {image && <img src={image} alt="" className="max-h-40 w-full rounded-lg object-contain" />}
          <ul className="grid gap-3 text-sm">
            {(features.length > 0 ? features : standardPrompt.features).map((feature) => (
              <li key={feature} className="flex gap-3 [overflow-wrap:anywhere]">
                <CheckIcon className="mt-0.5 size-4 shrink-0 text-primary" strokeWidth={2.5} aria-hidden />
                <span className="min-w-0">{feature}</span>
              </li>
            ))}
          </ul>
        </div>
        <div className="flex flex-wrap justify-end gap-2 border-t bg-surface px-5 py-4">
          <Button variant="secondary" tabIndex={-1}>
            {input.secondaryButtonText || standardPrompt.secondaryButtonText}
          </Button>
          <Button tabIndex={-1}>{input.primaryButtonText || standardPrompt.primaryButtonText}</Button>
        </div>
      </div>
    </Preview>
  );
}

function inputOf(row: PromptRow | null): PromptFormInput {
  return {
    title: row?.title ?? standardPrompt.title,
    subtitle: row?.subtitle ?? "",
    imageUrl: row?.image_url ?? "",
    features: featuresOf(row?.features ?? []).join("\n"),
    primaryButtonText: row?.primary_button_text ?? standardPrompt.primaryButtonText,
    secondaryButtonText: row?.secondary_button_text ?? standardPrompt.secondaryButtonText,
    delaySeconds: String(row?.delay_seconds ?? standardPrompt.delaySeconds),
  };
}
