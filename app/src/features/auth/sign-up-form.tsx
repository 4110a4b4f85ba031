import { zodResolver } from "@hookform/resolvers/zod";
import { type ReactNode, useEffect } from "react";
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
import { messageOf } from "@/lib/errors";
import { type Invited, invitedIn } from "@/lib/invited";
import { rememberSession } from "@/lib/session-storage";
import { toast } from "@/lib/toast";
import { confirmationTarget } from "./confirmation-note";
import { isKnownAddress, loginFailure, signUpErrorField } from "./messages";
import { type SignUpValues, signUpSchema } from "./schema";
import { keepTypedEmail, typedEmail } from "./typed-email";

interface SignUpFormProps {
  /** A word about what comes after. */
  notice?: ReactNode;
}

/** A sign-up with the token of an invitation's mail needs no second mail: the server strips the token and confirms the address. */
function proofOf(invited: Invited | null, email: string) {
  const isProven = invited?.proof && invited.email.toLowerCase() === email.toLowerCase();
  return isProven ? { invitation_token: invited.proof } : {};
}

function toObject(state: unknown) {
  return state && typeof state === "object" ? state : {};
}

/** Creates the account and signs in. Where to go then is for the guard, which sees the new session. */
export function SignUpForm({ notice }: SignUpFormProps) {
  const navigate = useNavigate();
  const { state } = useLocation();
  const invited = invitedIn(state);
  const { control, formState, handleSubmit, register, setError, setFocus } = useForm<SignUpValues>({
    resolver: zodResolver(signUpSchema),
    defaultValues: { organization: "", email: invited?.email ?? typedEmail(), password: "", terms: false },
  });
  const { errors, isSubmitting } = formState;

  function reportFailure(error: unknown) {
    const field = signUpErrorField(error);
    const message = isKnownAddress(error) ? "There is already an account with this email." : messageOf(error);
    toast.error("Registration failed", field ? undefined : { description: message });
    if (field) setError(field, { type: isKnownAddress(error) ? "known" : "server", message });
  }

  const refused = (["email", "password"] as const).find((field) =>
    ["server", "known"].includes(errors[field]?.type ?? ""),
  );
  // Not sooner: in a disabled fieldset nothing takes the focus.
  useEffect(() => {
    if (refused && !isSubmitting) setFocus(refused);
  }, [refused, isSubmitting, setFocus]);

  async function signUp({ organization, email, password }: SignUpValues) {
    try {
      rememberSession(true);
      const { data, error } = await basalt.auth.signUp({
        email,
        password,
        options: {
          data: { organization_name: organization, ...proofOf(invited, email) },
          // Where the link of the confirming mail leads, if addresses have to be confirmed here.
          emailRedirectTo: confirmationTarget(invited),
        },
      });
      if (error) return reportFailure(error);
      // Where addresses need no confirmation the answer is a session already.
      if (!data.session) {
        const signIn = await basalt.auth.signInWithPassword({ email, password });
        if (signIn.error) {
          toast.error("Login failed", { description: loginFailure(signIn.error).message });
          const confirming = { email, redirectTo: confirmationTarget(invited) };
          return navigate("/login", { state: { ...toObject(state), confirming } });
        }
      }
      keepTypedEmail("");
      toast.success("Welcome!", { description: "Your account has been created successfully." });
    } catch (error) {
      reportFailure(error);
    }
  }

  return (
    <form noValidate aria-label="Sign up" onSubmit={(event) => void handleSubmit(signUp)(event)}>
      <fieldset disabled={isSubmitting} className="grid gap-5">
        {notice}
        <FormField label="Organization Name" error={errors.organization?.message} required>
          <Input autoComplete="organization" placeholder="Riverside Food Bank" {...register("organization")} />
        </FormField>
        <FormField label="Email" error={errors.email?.message} required>
          <Input
            type="email"
            autoComplete="username"
            placeholder="you@organization.org"
            readOnly={invited !== null}
            {...register("email", { onChange: (event) => keepTypedEmail(event.target.value) })}
          />
        </FormField>
        {errors.email?.type === "known" && (
          <Alert
            action={
              <Button variant="secondary" size="small" onClick={() => void navigate("/login", { state })}>
                Log In
              </Button>
            }
          >
            <p>Is it yours? Then log in with it.</p>
          </Alert>
        )}
        <FormField label="Password" hint="At least 6 characters" error={errors.password?.message} required>
          <PasswordInput autoComplete="new-password" {...register("password")} />
        </FormField>
        <Controller
          control={control}
          name="terms"
          render={({ field: { value, onChange, ...field } }) => (
            <FormField
              label={
                <>
                  I agree to the{" "}
                  <Link to="/terms" target="_blank" className="text-primary underline underline-offset-2">
                    terms
                  </Link>{" "}
                  and{" "}
                  <Link to="/privacy" target="_blank" className="text-primary underline underline-offset-2">
                    privacy policy
                  </Link>
                </>
              }
              error={errors.terms?.message}
              layout="inline"
              required
            >
              <Checkbox checked={value} onCheckedChange={(checked) => onChange(checked === true)} {...field} />
            </FormField>
          )}
        />
        <SubmitButton busy={isSubmitting} busyLabel="Creating account..." className="w-full">
          Sign Up
        </SubmitButton>
      </fieldset>
    </form>
  );
}
