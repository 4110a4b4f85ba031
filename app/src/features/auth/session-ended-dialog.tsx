import type { User } from "@supabase/supabase-js";
import { Dialog as Primitive } from "radix-ui";
import { useState } from "react";
import { useForm } from "react-hook-form";
import { FormField } from "@/components/form-field";
import { SubmitButton } from "@/components/submit-button";
import { Alert } from "@/components/ui/alert";
import { Button } from "@/components/ui/button";
import { DialogBody, DialogFooter, dialogHeader, dialogOverlay, dialogPanel } from "@/components/ui/dialog-panel";
import { PasswordInput } from "@/components/ui/password-input";
import { basalt } from "@/lib/basalt";
import { cn } from "@/lib/cn";
import { CodeForm } from "./code-form";
import { verifiedFactors } from "./code-screen";
import { announceSignOut } from "./deliberate-sign-out";
import { loginFailure, unexpectedFailure } from "./messages";

interface SessionEndedDialogProps {
  user: User;
  /** The password was right, and the code of the second factor comes next. */
  codeUser: User | null;
}

/** Over the screen of someone whose session ended: what they were typing lies behind it, and stays. */
export function SessionEndedDialog({ user, codeUser }: SessionEndedDialogProps) {
  const [failure, setFailure] = useState<string | null>(null);
  const { formState, handleSubmit, register } = useForm({ defaultValues: { password: "" } });

  async function signIn({ password }: { password: string }) {
    setFailure(null);
    try {
      const { error } = await basalt.auth.signInWithPassword({ email: user.email ?? "", password });
      if (error) setFailure(loginFailure(error).message);
    } catch {
      setFailure(unexpectedFailure.message);
    }
  }

  return (
    <Primitive.Root open>
      <Primitive.Portal>
        <Primitive.Overlay className={cn(dialogOverlay, "z-[60]")} />
        <Primitive.Content
          className={cn(dialogPanel, "z-[60] sm:max-w-md")}
          onEscapeKeyDown={(event) => event.preventDefault()}
          onInteractOutside={(event) => event.preventDefault()}
        >
          <div className={dialogHeader}>
            <Primitive.Title className="text-heading">Your session has ended</Primitive.Title>
            <Primitive.Description className="text-muted-foreground text-sm [overflow-wrap:anywhere]">
              Log in again as {user.email} to go on where you were. What you have typed is still there.
            </Primitive.Description>
          </div>
          {codeUser ? (
            <DialogBody className="pb-5">
              <CodeForm factors={verifiedFactors(codeUser)} onCancel={announceSignOut} cancelLabel="Leave" />
            </DialogBody>
          ) : (
            <form
              noValidate
              aria-label="Log in again"
              className="flex min-h-0 flex-col"
              onSubmit={(event) => {
                // Within another form, as React sees it: that one is not to be sent.
                event.stopPropagation();
                void handleSubmit(signIn)(event);
              }}
            >
              <fieldset disabled={formState.isSubmitting} className="contents">
                <DialogBody className="grid gap-4">
                  {/* Lets a password manager find the password of this address. */}
                  <input type="email" autoComplete="username" value={user.email ?? ""} readOnly hidden />
                  <FormField label="Password" error={formState.errors.password?.message}>
                    <PasswordInput
                      autoComplete="current-password"
                      {...register("password", { required: "Required" })}
                    />
                  </FormField>
                  {failure && (
                    <Alert tone="destructive" role="alert">
                      {failure}
                    </Alert>
                  )}
                </DialogBody>
                <DialogFooter>
                  <Button variant="secondary" onClick={announceSignOut}>
                    Leave
                  </Button>
                  <SubmitButton busy={formState.isSubmitting} busyLabel="Logging in...">
                    Log In
                  </SubmitButton>
                </DialogFooter>
              </fieldset>
            </form>
          )}
        </Primitive.Content>
      </Primitive.Portal>
    </Primitive.Root>
  );
}
