import { zodResolver } from "@hookform/resolvers/zod";
import { useEffect, useState } from "react";
import { Controller, useForm } from "react-hook-form";
import { Link, useLocation, useNavigate } from "react-router";
import { toast } from "sonner";
import { FormField } from "@/components/form-field";
import { SubmitButton } from "@/components/submit-button";
import { Button } from "@/components/ui/button";
import { Checkbox } from "@/components/ui/checkbox";
import { Input } from "@/components/ui/input";
import { basalt } from "@/lib/basalt";
import { rememberSession } from "@/lib/session-storage";
import { type LoginFailure, loginFailure, unexpectedFailure } from "./messages";
import { type LoginValues, loginSchema } from "./schema";

/** Signs in. Where to go then is for the guard, which sees the new session. */
export function LoginForm() {
  const navigate = useNavigate();
  const { state } = useLocation();
  const [failure, setFailure] = useState<LoginFailure | null>(null);
  const { control, formState, handleSubmit, register, setFocus } = useForm<LoginValues>({
    resolver: zodResolver(loginSchema),
    defaultValues: { email: "", password: "", rememberMe: true },
  });
  const { errors, isSubmitting } = formState;

  async function signIn({ email, password, rememberMe }: LoginValues) {
    setFailure(null);
    try {
      rememberSession(rememberMe);
      const { error } = await basalt.auth.signInWithPassword({ email, password });
      if (!error) {
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
        <FormField label="Email" error={errors.email?.message} required>
          <Input type="email" autoComplete="username" placeholder="you@organization.org" {...register("email")} />
        </FormField>
        <FormField label="Password" error={errors.password?.message} required>
          <Input type="password" autoComplete="current-password" {...register("password")} />
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
          <Link to="/forgot-password" className="rounded-sm font-medium text-primary text-sm hover:underline">
            Forgot password?
          </Link>
        </div>
        {failure && (
          <div role="alert" className="grid gap-3 rounded-md bg-destructive-soft px-3.5 py-3 text-sm">
            <p>{failure.message}</p>
            {failure.offerSignUp && (
              <Button
                variant="secondary"
                size="small"
                className="justify-self-start"
                onClick={() => void navigate("/register", { state })}
              >
                Sign Up
              </Button>
            )}
          </div>
        )}
        <SubmitButton busy={isSubmitting} busyLabel="Logging in..." className="w-full">
          Log In
        </SubmitButton>
      </fieldset>
    </form>
  );
}
