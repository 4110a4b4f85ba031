import { zodResolver } from "@hookform/resolvers/zod";
import { useState } from "react";
import { useForm } from "react-hook-form";
import * as z from "zod/mini";
import { FormField } from "@/components/form-field";
import { SubmitButton } from "@/components/submit-button";
import { Alert } from "@/components/ui/alert";
import { Button } from "@/components/ui/button";
import { Input } from "@/components/ui/input";
import { Select } from "@/components/ui/select";
import { basalt } from "@/lib/basalt";
import { codeOf, messageOf } from "@/lib/errors";

const codeSchema = z.object({
  factorId: z.string(),
  code: z.string().check(z.trim(), z.regex(/^\d{6}$/, "Enter the 6 digits that the app shows")),
});

/** The message for a rejected code. */
export function codeFailure(error: unknown) {
  const code = codeOf(error);
  if (code === "mfa_verification_failed")
    return "This code is wrong or has expired. Enter the one that the app shows now.";
  if (code === "mfa_challenge_expired") return "That took too long. Enter the code that the app shows now.";
  return messageOf(error);
}

interface CodeFormProps {
  factors: { id: string; friendly_name?: string | undefined }[];
  /** The person cancels. */
  onCancel: () => void;
  cancelLabel?: string;
}

/** The field for the code of an authenticator app. The client stores the new session, which the guards see. */
export function CodeForm(props: CodeFormProps) {
  const [hasApp, setHasApp] = useState(true);
  return hasApp ? (
    <AppCodeForm {...props} onLost={() => setHasApp(false)} />
  ) : (
    <RecoveryCodeForm {...props} onFound={() => setHasApp(true)} />
  );
}

function AppCodeForm({
  factors,
  onCancel,
  onLost,
  cancelLabel = "Back to log in",
}: CodeFormProps & { onLost: () => void }) {
  const [failure, setFailure] = useState<string | null>(null);
  const { formState, handleSubmit, register, resetField, setFocus } = useForm({
    resolver: zodResolver(codeSchema),
    defaultValues: { factorId: factors[0]?.id ?? "", code: "" },
  });
  const { errors, isSubmitting } = formState;

  async function verify({ factorId, code }: z.infer<typeof codeSchema>) {
    setFailure(null);
    const { error } = await basalt.auth.mfa.challengeAndVerify({ factorId, code });
    if (!error) return;
    setFailure(codeFailure(error));
    resetField("code");
    // Not sooner: in a disabled fieldset nothing takes the focus.
    setTimeout(() => setFocus("code"));
  }

  return (
    <form
      noValidate
      aria-label="Enter the code"
      onSubmit={(event) => {
        event.stopPropagation();
        void handleSubmit(verify)(event);
      }}
    >
      <fieldset disabled={isSubmitting} className="grid gap-5">
        {factors.length > 1 && (
          <FormField label="Authenticator">
            <Select {...register("factorId")}>
              {factors.map(({ id, friendly_name: name }, index) => (
                <option key={id} value={id}>
                  {name || `Authenticator app ${index + 1}`}
                </option>
              ))}
            </Select>
          </FormField>
        )}
        <FormField
          label="Code"
          hint="The 6 digits that your authenticator app shows"
          error={errors.code?.message}
          required
        >
          <Input inputMode="numeric" autoComplete="one-time-code" maxLength={7} autoFocus {...register("code")} />
        </FormField>
        {failure && (
          <Alert tone="destructive" role="alert">
            <p>{failure}</p>
          </Alert>
        )}
        <div className="grid gap-3">
          <SubmitButton busy={isSubmitting} busyLabel="Checking..." className="w-full">
            Continue
          </SubmitButton>
          <Button variant="ghost" onClick={onLost}>
            Use a recovery code
          </Button>
          <Button variant="ghost" onClick={onCancel}>
            {cancelLabel}
          </Button>
        </div>
      </fieldset>
    </form>
  );
}

const recoveryCodeSchema = z.object({ code: z.string().check(z.trim(), z.minLength(1, "Enter one of your codes")) });

function recoveryCodeFailure(error: unknown) {
  const code = codeOf(error);
  if (code === "mfa_verification_failed") return "This code is wrong or was used before. Enter another one.";
  if (code === "mfa_recovery_codes_locked") return "Too many wrong codes. Wait a moment, then try again.";
  return messageOf(error);
}

function RecoveryCodeForm({
  onCancel,
  onFound,
  cancelLabel = "Back to log in",
}: CodeFormProps & { onFound: () => void }) {
  const [failure, setFailure] = useState<string | null>(null);
  const { formState, handleSubmit, register, setFocus } = useForm({
    resolver: zodResolver(recoveryCodeSchema),
    defaultValues: { code: "" },
  });
  const { errors, isSubmitting } = formState;

  async function verify({ code }: z.infer<typeof recoveryCodeSchema>) {
    setFailure(null);
    const { error } = await basalt.auth.mfa.recoveryCodes.verify({ code });
    if (!error) return;
    setFailure(recoveryCodeFailure(error));
    // Not sooner: in a disabled fieldset nothing takes the focus.
    setTimeout(() => setFocus("code"));
  }

  return (
    <form
      noValidate
      aria-label="Enter a recovery code"
      onSubmit={(event) => {
        event.stopPropagation();
        void handleSubmit(verify)(event);
      }}
    >
      <fieldset disabled={isSubmitting} className="grid gap-5">
        <FormField label="Recovery code" hint="Each code works once" error={errors.code?.message} required>
          <Input autoComplete="off" autoCapitalize="none" spellCheck={false} autoFocus {...register("code")} />
        </FormField>
        {failure && (
          <Alert tone="destructive" role="alert">
            <p>{failure}</p>
          </Alert>
        )}
        <div className="grid gap-3">
          <SubmitButton busy={isSubmitting} busyLabel="Checking..." className="w-full">
            Continue
          </SubmitButton>
          <Button variant="ghost" onClick={onFound}>
            Use the authenticator app
          </Button>
          <Button variant="ghost" onClick={onCancel}>
            {cancelLabel}
          </Button>
        </div>
      </fieldset>
    </form>
  );
}
