import { zodResolver } from "@hookform/resolvers/zod";
import { useForm } from "react-hook-form";
import { FormField } from "@/components/form-field";
import { SubmitButton } from "@/components/submit-button";
import { Input, Textarea } from "@/components/ui/input";
import { useSendTestMail } from "./queries";
import { type TestMail, testMailSchema } from "./schema";

/** Sends one mail with the saved settings, at once. */
export function TestMailForm({ defaultTo }: { defaultTo: string }) {
  const send = useSendTestMail();
  const { formState, handleSubmit, register, watch } = useForm<TestMail>({
    resolver: zodResolver(testMailSchema),
    defaultValues: { to: defaultTo, subject: "Test email", message: "The site's e-mail settings work." },
  });
  const { errors, isSubmitting } = formState;
  // What was typed stays: the next try may be the same mail.
  const submit = handleSubmit((mail) => send.mutateAsync(mail).then(undefined, () => undefined));
  return (
    <form noValidate onSubmit={(event) => void submit(event)}>
      <fieldset disabled={isSubmitting} className="grid min-w-0 max-w-xl gap-5">
        <FormField label="To" error={errors.to?.message} required>
          <Input type="email" autoComplete="email" {...register("to")} />
        </FormField>
        <FormField
          label="Subject"
          error={errors.subject?.message}
          limit={{ used: watch("subject").length, of: 200 }}
          required
        >
          <Input autoComplete="off" {...register("subject")} />
        </FormField>
        <FormField
          label="Message"
          error={errors.message?.message}
          limit={{ used: watch("message").length, of: 10_000 }}
          required
        >
          <Textarea className="min-h-32" {...register("message")} />
        </FormField>
        <SubmitButton busy={isSubmitting} busyLabel="Sending..." className="justify-self-start">
          Send Test Email
        </SubmitButton>
      </fieldset>
    </form>
  );
}
