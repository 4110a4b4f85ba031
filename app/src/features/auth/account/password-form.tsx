import { zodResolver } from "@hookform/resolvers/zod";
import type { User } from "@supabase/supabase-js";
import { useState } from "react";
import { useForm } from "react-hook-form";
import { FormField } from "@/components/form-field";
import { SubmitButton } from "@/components/submit-button";
import { Alert } from "@/components/ui/alert";
import { Input } from "@/components/ui/input";
import { PasswordInput } from "@/components/ui/password-input";
import { basalt } from "@/lib/basalt";
import { codeOf, messageOf } from "@/lib/errors";
import { toast } from "@/lib/toast";
import { type ResetPasswordValues, resetPasswordSchema } from "../schema";

export function PasswordForm({ user }: { user: User }) {
  // Some servers want a code from a mail when the session is not a fresh one.
  const [wantsCode, setWantsCode] = useState(false);
  const [code, setCode] = useState("");
  const { formState, handleSubmit, register, reset, setError } = useForm<ResetPasswordValues>({
    resolver: zodResolver(resetPasswordSchema),
    defaultValues: { password: "", confirmPassword: "" },
  });
  const { errors, isSubmitting } = formState;

  async function save({ password }: ResetPasswordValues) {
    const { error } = await basalt.auth.updateUser({ password, ...(code.trim() && { nonce: code.trim() }) });
    if (!error) {
      reset();
      setWantsCode(false);
      setCode("");
      return toast.success("Password changed");
    }
    if (codeOf(error) === "reauthentication_needed") {
      const mail = await basalt.auth.reauthenticate();
      if (mail.error) return setError("root", { message: messageOf(mail.error) });
      return setWantsCode(true);
    }
    const field = ["weak_password", "same_password"].includes(codeOf(error) ?? "") ? "password" : "root";
    setError(field, { message: messageOf(error) });
  }

  return (
    <form noValidate aria-label="Password" onSubmit={(event) => void handleSubmit(save)(event)}>
      <fieldset disabled={isSubmitting} className="grid gap-5">
        {/* So that a password manager knows whose password it is. */}
        <input type="email" autoComplete="username" value={user.email ?? ""} readOnly hidden />
        <div className="grid gap-5 sm:grid-cols-2">
          <FormField label="New password" hint="At least 6 characters" error={errors.password?.message} required>
            <PasswordInput autoComplete="new-password" {...register("password")} />
          </FormField>
          <FormField label="Confirm password" error={errors.confirmPassword?.message} required>
            <PasswordInput autoComplete="new-password" {...register("confirmPassword")} />
          </FormField>
        </div>
        {wantsCode && (
          <FormField
            label="Code from the mail"
            hint={`We sent it to ${user.email}. It confirms that it is you.`}
            required
          >
            <Input
              inputMode="numeric"
              autoComplete="one-time-code"
              value={code}
              onChange={(event) => setCode(event.target.value)}
            />
          </FormField>
        )}
        {errors.root?.message && (
          <Alert role="alert" tone="destructive">
            <p>{errors.root.message}</p>
          </Alert>
        )}
        <SubmitButton busy={isSubmitting} busyLabel="Saving..." className="justify-self-start">
          Change password
        </SubmitButton>
      </fieldset>
    </form>
  );
}
