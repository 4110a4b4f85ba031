import { zodResolver } from "@hookform/resolvers/zod";
import { useEffect, useState } from "react";
import { Controller, useForm } from "react-hook-form";
import { Link, useLocation, useNavigate } from "react-router";
import { FormField } from "@/components/form-field";
import { SubmitButton } from "@/components/submit-button";
import { Alert } from "@/components/ui/alert";
import { Button } from "@/components/ui/button";
import { Checkbox } from "@/components/ui/checkbox";
import { Input } from "@/components/ui/input";
import { PasswordInput } from "@/components/ui/password-input";
import { basalt } from "@/lib/basalt";
import { invitedIn } from "@/lib/invited";
import { rememberSession } from "@/lib/session-storage";
import { toast } from "@/lib/toast";
import { ConfirmationNote } from "./confirmation-note";
import { type LoginFailure, loginFailure, unexpectedFailure } from "./messages";
import { type LoginValues, loginSchema } from "./schema";
import { keepTypedEmail, typedEmail } from "./typed-email";

/** Signs in. Where to go then is for the guard, which sees the new session. */
export function LoginForm() {
  const navigate = useNavigate();
  const { state } = useLocation();
  const [failure, setFailure] = useState<LoginFailure | null>(null);
  const { control, formState, handleSubmit, register, setFocus } = useForm<LoginValues>({
    resolver: zodResolver(loginSchema),
    defaultValues: { email: typedEmail() || (invitedIn(state)?.email ?? ""), password: "", rememberMe: true },
  });
  const { errors, isSubmitting } = formState;

  async function signIn({ email, password, rememberMe }: LoginValues) {
    setFailure(null);
    try {
      rememberSession(rememberMe);
      const { error } = await basalt.auth.signInWithPassword({ email, password });
      if (!error) {
        keepTypedEmail("");
        toast.success("Login successful", { description: "Welcome back!" });
        return;
      }
      setFailure(loginFailure(error));
    } catch {
      setFailure(unexpectedFailure);
    }
  }

  // Not sooner: in a disabled fieldset nothing takes the focus.
  useEffect(() => {
    if (failure && !isSubmitting) setFocus("password");
  }, [failure, isSubmitting, setFocus]);

  return (
    <form noValidate aria-label="Log in" onSubmit={(event) => void handleSubmit(signIn)(event)}>
      <fieldset disabled={isSubmitting} className="grid gap-5">
        <ConfirmationNote state={state} />
        <FormField label="Email" error={errors.email?.message} required>
          <Input
            type="email"
            autoComplete="username"
            placeholder="you@organization.org"
            {...register("email", { onChange: (event) => keepTypedEmail(event.target.value) })}
          />
        </FormField>
        <FormField label="Password" error={errors.password?.message} required>
          <PasswordInput autoComplete="current-password" {...register("password")} />
        </FormField>
        <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
          <Controller
            control={control}
            name="rememberMe"
            render={({ field: { value, onChange, ...field } }) => (
              <FormField label="Remember me" layout="inline">
                <Checkbox checked={value} onCheckedChange={(checked) => onChange(checked === true)} {...field} />
              </FormField>
            )}
          />
          <Link
            to="/forgot-password"
            className="-my-2.5 flex min-h-11 items-center rounded-sm font-medium text-primary text-sm hover:underline"
          >
            Forgot password?
          </Link>
        </div>
        {failure && (
          <Alert
            tone="destructive"
            role="alert"
            action={
              failure.offerSignUp && (
                <Button variant="secondary" size="small" onClick={() => void navigate("/register", { state })}>
                  Sign Up
                </Button>
              )
            }
          >
            <p>{failure.message}</p>
          </Alert>
        )}
        {!failure && hasEnded(state) && (
          <Alert tone="info" role="status">
            <p>Your session has ended. Log in to go on where you were.</p>
          </Alert>
        )}
        <SubmitButton busy={isSubmitting} busyLabel="Logging in..." className="w-full">
          Log In
        </SubmitButton>
      </fieldset>
    </form>
  );
}

function hasEnded(state: unknown) {
  return Boolean(state && typeof state === "object" && "sessionEnded" in state && state.sessionEnded === true);
}
