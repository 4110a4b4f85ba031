import { zodResolver } from "@hookform/resolvers/zod";
import { useEffect, useState } from "react";
import { useForm } from "react-hook-form";
import { FormField } from "@/components/form-field";
import { SubmitButton } from "@/components/submit-button";
import { Alert } from "@/components/ui/alert";
import { PasswordInput } from "@/components/ui/password-input";
import { basalt } from "@/lib/basalt";
import { messageOf } from "@/lib/errors";
import { invalidResetLink } from "./messages";
import { type ResetPasswordValues, resetPasswordSchema } from "./schema";
import { signOut } from "./sign-out";

interface ResetPasswordFormProps {
  /** Whose password the link is for. */
  userId: string | null;
  onDone: () => void;
}

/**
 * Sets the password of the person whose link opened this page, and ends the session that the link brought:
 * from here on the new password is the way in.
 */
export function ResetPasswordForm({ userId, onDone }: ResetPasswordFormProps) {
  const [failure, setFailure] = useState<string | null>(null);
  const { formState, handleSubmit, register, setFocus } = useForm<ResetPasswordValues>({
    resolver: zodResolver(resetPasswordSchema),
    defaultValues: { password: "", confirmPassword: "" },
  });
  const { errors, isSubmitting } = formState;

  async function reset({ password }: ResetPasswordValues) {
    setFailure(null);
    try {
      const { data } = await basalt.auth.getSession();
      // A link that opened nothing leaves an earlier sign-in in place; the new password is not for that person.
      if (data.session && data.session.user.id !== userId) return setFailure(invalidResetLink);
      const { error } = await basalt.auth.updateUser({ password });
      if (error) return setFailure(messageOf(error));
      await signOut();
      onDone();
    } catch (error) {
      setFailure(messageOf(error));
    }
  }

  // Not sooner: in a disabled fieldset nothing takes the focus.
  useEffect(() => {
    if (failure && !isSubmitting) setFocus("password");
  }, [failure, isSubmitting, setFocus]);

  return (
    <form noValidate aria-label="Account recovery" onSubmit={(event) => void handleSubmit(reset)(event)}>
      <fieldset disabled={isSubmitting} className="grid gap-5">
        <FormField label="New Password" hint="At least 6 characters" error={errors.password?.message} required>
          <PasswordInput autoComplete="new-password" {...register("password")} />
        </FormField>
        <FormField label="Confirm Password" error={errors.confirmPassword?.message} required>
          <PasswordInput autoComplete="new-password" {...register("confirmPassword")} />
        </FormField>
        {failure && (
          <Alert tone="destructive" role="alert">
            {failure}
          </Alert>
        )}
        <SubmitButton busy={isSubmitting} busyLabel="Saving..." className="w-full">
          Reset Password
        </SubmitButton>
      </fieldset>
    </form>
  );
}
