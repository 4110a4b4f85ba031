import { zodResolver } from "@hookform/resolvers/zod";
import { useForm } from "react-hook-form";
import { FormField } from "@/components/form-field";
import { SubmitButton } from "@/components/submit-button";
import { Input } from "@/components/ui/input";
import { basalt } from "@/lib/basalt";
import { type ForgotPasswordValues, forgotPasswordSchema } from "./schema";
import { keepTypedEmail, typedEmail } from "./typed-email";

interface ForgotPasswordFormProps {
  /** The mail is on its way, if the address has an account: the server does not tell. */
  onSent: (email: string) => void;
}

/** Asks for a mail with a link to /reset-password. As the specification has it, a failure shows nothing. */
export function ForgotPasswordForm({ onSent }: ForgotPasswordFormProps) {
  const { formState, handleSubmit, register } = useForm<ForgotPasswordValues>({
    resolver: zodResolver(forgotPasswordSchema),
    defaultValues: { email: typedEmail() },
  });
  const { errors, isSubmitting } = formState;

  async function send({ email }: ForgotPasswordValues) {
    const redirectTo = `${window.location.origin}/reset-password`;
    const { error } = await basalt.auth.resetPasswordForEmail(email, { redirectTo });
    if (!error) onSent(email);
  }

  return (
    <form noValidate aria-label="Reset password" onSubmit={(event) => void handleSubmit(send)(event)}>
      <fieldset disabled={isSubmitting} className="grid gap-5">
        <FormField label="Email" error={errors.email?.message} required>
          <Input
            type="email"
            autoComplete="username"
            placeholder="you@organization.org"
            {...register("email", { onChange: (event) => keepTypedEmail(event.target.value) })}
          />
        </FormField>
        <SubmitButton busy={isSubmitting} busyLabel="Sending..." className="w-full">
          Send Reset Link
        </SubmitButton>
      </fieldset>
    </form>
  );
}
