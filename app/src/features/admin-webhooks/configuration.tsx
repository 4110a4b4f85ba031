import { zodResolver } from "@hookform/resolvers/zod";
import { useQuery } from "@tanstack/react-query";
import { BookOpenIcon, CopyIcon } from "lucide-react";
import { useRef, useState } from "react";
import { useForm } from "react-hook-form";
import * as z from "zod/mini";
import { FormField } from "@/components/form-field";
import { lazyDialog } from "@/components/lazy-part";
import { SubmitButton } from "@/components/submit-button";
import { Alert } from "@/components/ui/alert";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { Input } from "@/components/ui/input";
import { PasswordInput } from "@/components/ui/password-input";
import { toast } from "@/lib/toast";
import { useSaveWebhookSecret, webhookUrl, webhookUrlQuery } from "./queries";

const SetupInstructions = lazyDialog(() =>
  import("./setup-instructions").then(({ SetupInstructions }) => SetupInstructions),
);

const secretSchema = z.object({
  secret: z
    .string()
    .check(z.trim(), z.minLength(1, "Webhook secret is required"), z.maxLength(500, "This secret is too long")),
});

export function Configuration() {
  const url = useQuery(webhookUrlQuery()).data ?? webhookUrl(window.location.origin);
  const [showsInstructions, setShowsInstructions] = useState(false);
  const save = useSaveWebhookSecret();
  const { formState, handleSubmit, register, reset } = useForm<z.infer<typeof secretSchema>>({
    resolver: zodResolver(secretSchema),
    defaultValues: { secret: "" },
  });
  const { errors, isSubmitting } = formState;
  const submit = handleSubmit(({ secret }) =>
    save.mutateAsync(secret).then(
      () => reset(),
      () => undefined,
    ),
  );

  return (
    <div className="grid gap-6">
      <Alert tone="warning" title="Important: Manual Configuration Required">
        <ol className="list-decimal ps-5">
          <li>Add an endpoint in the payment provider dashboard using the URL below.</li>
          <li>Copy the signing secret.</li>
          <li>
            Add it as a secret named <code className="font-mono text-xs">STRIPE_WEBHOOK_SECRET</code> in the backend
            function settings.
          </li>
        </ol>
      </Alert>
      <Card className="grid gap-6 p-5 sm:p-6">
        <h2 className="text-heading">Webhook Configuration</h2>
        <WebhookUrl url={url} />
        <form noValidate onSubmit={(event) => void submit(event)}>
          <fieldset disabled={isSubmitting} className="grid min-w-0 gap-4">
            <FormField
              label="Webhook Signing Secret"
              error={errors.secret?.message}
              hint="The secret is stored only temporarily and must also be set permanently in the backend dashboard."
              required
            >
              <PasswordInput
                autoComplete="off"
                placeholder="Enter your Stripe webhook secret"
                {...register("secret")}
              />
            </FormField>
            <div className="flex flex-wrap gap-3">
              <SubmitButton busy={isSubmitting} busyLabel="Saving..." className="max-sm:w-full max-sm:px-2">
                Save Webhook Secret Temporarily
              </SubmitButton>
              <Button
                variant="secondary"
                className="max-sm:w-full max-sm:px-2"
                onClick={() => setShowsInstructions(true)}
              >
                <BookOpenIcon aria-hidden />
                View Manual Setup Instructions
              </Button>
            </div>
          </fieldset>
        </form>
      </Card>
      <SetupInstructions open={showsInstructions} onOpenChange={setShowsInstructions} url={url} />
    </div>
  );
}

function WebhookUrl({ url }: { url: string }) {
  const input = useRef<HTMLInputElement>(null);
  async function copy() {
    try {
      await navigator.clipboard.writeText(url);
      toast.success("Copied!", { description: "Webhook URL copied to clipboard" });
    } catch {
      // Without HTTPS browsers keep the clipboard to themselves.
      input.current?.select();
      toast.error("The browser did not let it be copied", { description: "It is selected: press Ctrl or Cmd + C." });
    }
  }
  return (
    <div className="flex items-end gap-2">
      <FormField label="Webhook URL" className="grow">
        <Input ref={input} readOnly dir="ltr" value={url} className="font-mono text-sm" />
      </FormField>
      <Button variant="secondary" onClick={() => void copy()}>
        <CopyIcon aria-hidden />
        Copy<span className="sr-only"> webhook URL</span>
      </Button>
    </div>
  );
}
