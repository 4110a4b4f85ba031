import { zodResolver } from "@hookform/resolvers/zod";
import type { User } from "@supabase/supabase-js";
import { useForm } from "react-hook-form";
import { FormField } from "@/components/form-field";
import { SubmitButton } from "@/components/submit-button";
import { Alert } from "@/components/ui/alert";
import { Input } from "@/components/ui/input";
import { basalt } from "@/lib/basalt";
import { messageOf } from "@/lib/errors";
import { toast } from "@/lib/toast";
import { isKnownAddress } from "../messages";
import { emailSchema } from "./schema";

export function EmailForm({ user }: { user: User }) {
  const { formState, handleSubmit, register, reset, setError } = useForm({
    resolver: zodResolver(emailSchema),
    defaultValues: { email: user.email ?? "" },
  });
  const { errors, isDirty, isSubmitting } = formState;

  async function save({ email }: { email: string }) {
    const { data, error } = await basalt.auth.updateUser(
      { email },
      { emailRedirectTo: `${window.location.origin}/account` },
    );
    if (error) {
      const message = isKnownAddress(error) ? "There is already an account with this email." : messageOf(error);
      return setError("email", { type: "server", message });
    }
    reset({ email: data.user.email ?? "" });
    if (data.user.email?.toLowerCase() === email.toLowerCase()) toast.success("Email changed");
  }

  return (
    <form noValidate aria-label="Email address" onSubmit={(event) => void handleSubmit(save)(event)}>
      <fieldset disabled={isSubmitting} className="grid gap-5">
        {user.new_email && (
          <Alert role="status" tone="info" title="Check your email">
            <p>
              We sent links to confirm the change to {user.new_email}. Until each link has been followed, you log in
              with {user.email}.
            </p>
          </Alert>
        )}
        <FormField label="Email" error={errors.email?.message} required>
          <Input type="email" autoComplete="email" {...register("email")} />
        </FormField>
        <SubmitButton busy={isSubmitting} busyLabel="Saving..." disabled={!isDirty} className="justify-self-start">
          Change email
        </SubmitButton>
      </fieldset>
    </form>
  );
}
