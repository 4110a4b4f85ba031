import { zodResolver } from "@hookform/resolvers/zod";
import { useState } from "react";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { FormField } from "@/components/form-field";
import { StaleAlert } from "@/components/stale-alert";
import { SubmitButton } from "@/components/submit-button";
import { Button } from "@/components/ui/button";
import { Input } from "@/components/ui/input";
import { PasswordInput } from "@/components/ui/password-input";
import { UnsavedGuard } from "@/components/unsaved-guard";
import { useRowForm } from "@/hooks/use-row-form";
import { FunctionError } from "@/lib/functions";
import { type Setting, useRemoveKey, useSaveMailSettings } from "./queries";
import { type MailSettings, mailSettingsSchema } from "./schema";

const noSettings: MailSettings = { apiKey: "", fromEmail: "", fromName: "" };

export function MailSettingsForm({ row }: { row: Setting<MailSettings> | null }) {
  const save = useSaveMailSettings();
  const removeKey = useRemoveKey();
  const [replacing, setReplacing] = useState(false);
  const [removing, setRemoving] = useState(false);
  const { base, conflict, formState, register, resetField, setError, setValue, submit } = useRowForm({
    row,
    resolver: zodResolver(mailSettingsSchema),
    inputOf: (setting: Setting<MailSettings> | null) => setting?.value ?? noSettings,
    // The key is not kept in the page: the mask, which is all that comes back, takes its place.
    save: (change: { base: Setting<MailSettings> | null; values: MailSettings }) =>
      save.mutateAsync(change).then(
        () => setReplacing(false),
        (error: unknown) => {
          if (error instanceof FunctionError && error.subject === "api_key") {
            // The field of a saved key shows its mask, and takes no error.
            setReplacing(true);
            setError("apiKey", { type: "server", message: error.message }, { shouldFocus: true });
          }
          if (error instanceof FunctionError && error.subject === "from_email")
            setError("fromEmail", { type: "server", message: error.message }, { shouldFocus: true });
          throw error;
        },
      ),
  });
  const { errors, isDirty, isSubmitting } = formState;
  const savedMask = base?.value.apiKey ?? "";
  const showsMask = savedMask !== "" && !replacing;

  return (
    <form noValidate onSubmit={(event) => void submit(event)}>
      <fieldset disabled={isSubmitting} className="grid min-w-0 max-w-xl gap-5">
        {conflict && <StaleAlert {...conflict} />}
        {showsMask ? (
          <div className="grid gap-2">
            <FormField label="Resend API Key" hint="Saved. It is never shown again, not to administrators either.">
              <Input readOnly value={savedMask} className="font-mono" />
            </FormField>
            <div className="flex flex-wrap gap-2">
              <Button
                variant="secondary"
                size="small"
                onClick={() => {
                  setReplacing(true);
                  setValue("apiKey", "", { shouldDirty: true });
                }}
              >
                Replace key
              </Button>
              <Button variant="ghost" size="small" onClick={() => setRemoving(true)}>
                Remove key
              </Button>
            </div>
          </div>
        ) : (
          <div className="grid gap-2">
            <FormField
              label="Resend API Key"
              error={errors.apiKey?.message}
              hint="From the API Keys page of your Resend account; it begins with re_"
              required
            >
              <PasswordInput autoComplete="off" {...register("apiKey")} />
            </FormField>
            {savedMask !== "" && (
              <Button
                variant="ghost"
                size="small"
                className="justify-self-start"
                onClick={() => {
                  setReplacing(false);
                  resetField("apiKey", { defaultValue: savedMask });
                }}
              >
                Keep the saved key
              </Button>
            )}
          </div>
        )}
        <FormField
          label="From Email"
          error={errors.fromEmail?.message}
          hint="An address of a domain that you have verified at Resend"
          required
        >
          <Input type="email" autoComplete="off" placeholder="plans@example.org" {...register("fromEmail")} />
        </FormField>
        <FormField label="From Name" error={errors.fromName?.message} required>
          <Input autoComplete="off" placeholder="Riverside Community Trust" {...register("fromName")} />
        </FormField>
        <div className="grid gap-2">
          <SubmitButton busy={isSubmitting} busyLabel="Saving..." className="justify-self-start">
            Save Settings
          </SubmitButton>
          <p className="text-muted-foreground text-sm">
            Resend is asked first whether it accepts the key and the sender.
          </p>
        </div>
      </fieldset>
      <ConfirmDialog
        open={removing}
        onOpenChange={setRemoving}
        title="Remove Key"
        description="Mail is no longer sent through Resend. The server's own mail settings count again, for waiting mails too."
        confirmLabel="Remove Key"
        busyLabel="Removing..."
        onConfirm={async () => {
          if (base) await removeKey.mutateAsync(base);
        }}
      />
      <UnsavedGuard when={isDirty && !isSubmitting} />
    </form>
  );
}
