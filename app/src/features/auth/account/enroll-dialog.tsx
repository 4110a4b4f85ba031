import { zodResolver } from "@hookform/resolvers/zod";
import type { Factor } from "@supabase/supabase-js";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useForm } from "react-hook-form";
import * as z from "zod/mini";
import { FormField } from "@/components/form-field";
import { ErrorState } from "@/components/page-state";
import { Alert } from "@/components/ui/alert";
import { Dialog, DialogContent, DialogForm } from "@/components/ui/dialog";
import { DialogBody } from "@/components/ui/dialog-panel";
import { Input } from "@/components/ui/input";
import { Skeleton } from "@/components/ui/skeleton";
import { basalt } from "@/lib/basalt";
import { messageOf } from "@/lib/errors";
import { toast } from "@/lib/toast";
import { codeFailure } from "../code-form";
import { factorsKey } from "./queries";

interface EnrollDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  /** The person's factors, including those whose set-up was not finished. */
  known: Factor[];
}

/** Adds an authenticator app: shows its secret as a QR code and as text, then verifies a code of the app. */
export function EnrollDialog({ open, onOpenChange, known }: EnrollDialogProps) {
  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent
        title="Add an authenticator app"
        description="Scan the code with an app such as Google Authenticator, 1Password or Aegis, then enter what it shows."
      >
        <Enrollment known={known} onDone={() => onOpenChange(false)} />
      </DialogContent>
    </Dialog>
  );
}

interface Secret {
  factorId: string;
  picture: string;
  text: string;
}

const codeSchema = z.object({
  code: z.string().check(z.trim(), z.regex(/^\d{6}$/, "Enter the 6 digits that the app shows")),
});

function Enrollment({ known, onDone }: { known: Factor[]; onDone: () => void }) {
  const queryClient = useQueryClient();
  const [attempt, setAttempt] = useState(0);
  const [secret, setSecret] = useState<Secret | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  // The factors when the dialog opened: a refetch must not start another enrollment.
  const [before] = useState(known);
  const { formState, handleSubmit, register, resetField, setError, setFocus } = useForm({
    resolver: zodResolver(codeSchema),
    defaultValues: { code: "" },
  });
  const { errors, isSubmitting } = formState;

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new `attempt` restarts it
  useEffect(() => {
    let picture: string | null = null;
    let isClosed = false;
    setFailure(null);
    begin(before).then(
      ({ factorId, svg, text }) => {
        if (isClosed) return;
        picture = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
        setSecret({ factorId, picture, text });
      },
      (error: unknown) => isClosed || setFailure(messageOf(error)),
    );
    return () => {
      isClosed = true;
      if (picture) URL.revokeObjectURL(picture);
    };
  }, [before, attempt]);

  if (failure) {
    return (
      <DialogBody>
        <ErrorState
          size="small"
          heading="h3"
          title="The set-up could not be started"
          description={failure}
          onRetry={() => setAttempt(attempt + 1)}
        />
      </DialogBody>
    );
  }

  async function verify({ code }: { code: string }) {
    if (!secret) return;
    const { error } = await basalt.auth.mfa.challengeAndVerify({ factorId: secret.factorId, code });
    if (error) {
      resetField("code");
      setError("code", { message: codeFailure(error) });
      setTimeout(() => setFocus("code"));
      return;
    }
    await queryClient.invalidateQueries({ queryKey: factorsKey });
    toast.success("Authenticator app added", { description: "Logging in now requires its code." });
    onDone();
  }

  return (
    <DialogForm
      onSubmit={(event) => void handleSubmit(verify)(event)}
      busy={isSubmitting}
      dirty={false}
      submitLabel="Verify"
      busyLabel="Verifying..."
    >
      <div className="grid justify-items-center gap-4">
        {secret ? (
          // White in both themes: cameras read dark on light.
          <img
            src={secret.picture}
            alt="QR code for the authenticator app"
            className="size-48 rounded-lg bg-white p-2"
          />
        ) : (
          <div role="status">
            <span className="sr-only">Loading the code...</span>
            <Skeleton className="size-48" />
          </div>
        )}
        <p className="text-center text-muted-foreground text-sm">
          Can't scan it? Enter this secret by hand:{" "}
          <code className="select-all font-mono text-foreground [overflow-wrap:anywhere]">{secret?.text ?? "…"}</code>
        </p>
      </div>
      <FormField label="Code" error={errors.code?.message} required>
        <Input inputMode="numeric" autoComplete="one-time-code" maxLength={7} {...register("code")} />
      </FormField>
      <Alert tone="warning">
        <p>
          Without the app you cannot log in. Create recovery codes afterwards, or add an app on another device, so that
          a lost phone does not lock you out.
        </p>
      </Alert>
    </DialogForm>
  );
}

const unfinishedMs = 5 * 60_000;

async function begin(known: Factor[]) {
  // An abandoned set-up still occupies its name and counts towards the limit.
  const isAbandoned = ({ status, created_at: at }: Factor) =>
    status === "unverified" && Date.parse(at) < Date.now() - unfinishedMs;
  for (const { id } of known.filter(isAbandoned)) await basalt.auth.mfa.unenroll({ factorId: id });
  const names = new Set(known.map(({ friendly_name: name }) => name));
  let number = 1;
  const name = () => (number === 1 ? "Authenticator app" : `Authenticator app ${number}`);
  while (names.has(name())) number += 1;
  const { data, error } = await basalt.auth.mfa.enroll({ factorType: "totp", friendlyName: name() });
  if (error) throw error;
  // The client returns a data: URL.
  const svg = data.totp.qr_code.replace(/^data:image\/svg\+xml;utf-8,/, "");
  return { factorId: data.id, svg, text: data.totp.secret };
}
