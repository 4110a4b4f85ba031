import { zodResolver } from "@hookform/resolvers/zod";
import { FormField } from "@/components/form-field";
import { HtmlTemplate } from "@/components/html-template";
import { Preview } from "@/components/preview";
import { StaleAlert } from "@/components/stale-alert";
import { SubmitButton } from "@/components/submit-button";
import { Input, Textarea } from "@/components/ui/input";
import { UnsavedGuard } from "@/components/unsaved-guard";
import { useRowForm } from "@/hooks/use-row-form";
import { type Setting, useSaveTemplate } from "./queries";
import {
  fillTemplate,
  type Template,
  type TemplateVariable,
  templateSchema,
  templateVariables,
  unknownVariables,
} from "./schema";

const noTemplate: Template = { subject: "", body: "" };

const sample: Record<TemplateVariable, string> = {
  planTitle: "Five-year outreach plan",
  inviterEmail: "maria@example.org",
  role: "manager",
  inviteUrl: "https://example.org/invite?token=…",
};

/** The invitation that members get, beside how it will read. */
export function TemplateForm({ row }: { row: Setting<Template> | null }) {
  const save = useSaveTemplate();
  const { conflict, formState, register, submit, watch } = useRowForm({
    row,
    resolver: zodResolver(templateSchema),
    inputOf: (setting: Setting<Template> | null) => setting?.value ?? noTemplate,
    save: save.mutateAsync,
  });
  const { errors, isDirty, isSubmitting } = formState;
  const { subject, body } = watch();

  return (
    <div className="grid gap-8 lg:grid-cols-2">
      <form noValidate onSubmit={(event) => void submit(event)}>
        <fieldset disabled={isSubmitting} className="grid min-w-0 gap-5">
          {conflict && <StaleAlert {...conflict} />}
          <FormField
            label="Subject Template"
            error={errors.subject?.message}
            limit={{ used: subject.length, of: 200 }}
            hint={<Variables names={["planTitle"]} unknown={unknownVariables(subject, ["planTitle"])} />}
            required
          >
            <Input {...register("subject")} />
          </FormField>
          <FormField
            label="Email Body Template"
            error={errors.body?.message}
            hint={<Variables names={templateVariables} unknown={unknownVariables(body, templateVariables)} />}
            required
          >
            <Textarea spellCheck={false} dir="ltr" className="min-h-64 font-mono text-sm" {...register("body")} />
          </FormField>
          <SubmitButton busy={isSubmitting} busyLabel="Saving..." className="justify-self-start">
            Save Template
          </SubmitButton>
        </fieldset>
        <UnsavedGuard when={isDirty && !isSubmitting} />
      </form>
      <Preview label="Preview">
        <div className="border-b bg-surface px-5 py-4 text-sm">
          <p className="text-muted-foreground">To: new.member@example.org</p>
          <p className="mt-1 font-semibold [overflow-wrap:anywhere]">
            {fillTemplate(subject, { planTitle: sample.planTitle })}
          </p>
        </div>
        <div className="bg-surface-raised px-5 py-5 text-sm [overflow-wrap:anywhere]">
          <HtmlTemplate html={fillTemplate(body, sample)} values={{}} slots={{}} className="rich-text" />
        </div>
      </Preview>
    </div>
  );
}

function Variables({ names, unknown }: { names: readonly string[]; unknown: string[] }) {
  return (
    <>
      Variables:{" "}
      {names.map((name) => (
        <code key={name} className="me-1.5 rounded-sm bg-muted px-1 py-0.5 font-mono text-xs">{`{{${name}}}`}</code>
      ))}
      {unknown.length > 0 && (
        <span role="status" className="mt-1 block text-warning">
          {unknown.map((name) => `{{${name}}}`).join(", ")}{" "}
          {unknown.length === 1 ? "is no variable" : "are no variables"} here and will be sent as written.
        </span>
      )}
    </>
  );
}
