import { zodResolver } from "@hookform/resolvers/zod";
import { useState } from "react";
import { ConflictNote } from "@/components/conflict-note";
import { FormField } from "@/components/form-field";
import { SubmitButton } from "@/components/submit-button";
import { Button } from "@/components/ui/button";
import { Input, Textarea } from "@/components/ui/input";
import { UnsavedGuard } from "@/components/unsaved-guard";
import { useRowForm } from "@/hooks/use-row-form";
import { LogoField } from "./logo-field";
import { type LogoChange, useSaveOrganization } from "./mutations";
import type { Organization } from "./queries";
import { type OrganizationValues, organizationLimits, organizationSchema, valuesOf } from "./schema";

interface OrganizationFormProps {
  planId: string;
  /** As it is now: it may change while it is edited. */
  organization: Organization | null;
  onDone: () => void;
}

const texts = [
  { name: "mission", label: "Mission", placeholder: "What you do, for whom, and why" },
  { name: "vision", label: "Vision", placeholder: "The world as it will be when you have succeeded" },
  { name: "values", label: "Values", placeholder: "What guides your decisions" },
] as const;

export function OrganizationForm({ planId, organization, onDone }: OrganizationFormProps) {
  const save = useSaveOrganization(planId);
  const [logo, setLogo] = useState<LogoChange>({ kind: "same" });
  const [preparingLogo, setPreparingLogo] = useState(false);
  const [asking, setAsking] = useState(false);
  const { base, formState, register, watch, formProps, conflict } = useRowForm({
    row: organization,
    inputOf: valuesOf,
    resolver: zodResolver(organizationSchema),
    alsoDirty: logo.kind !== "same",
    save: async ({ base: seen, values }: { base: Organization | null; values: OrganizationValues }) => {
      const saved = await save.mutateAsync({ base: seen, values, logo });
      if (saved) onDone();
      return saved;
    },
  });
  const { errors } = formState;
  const { busy, dirty, onSubmit } = formProps;

  return (
    <form noValidate aria-label="Organization" onSubmit={onSubmit}>
      <fieldset disabled={busy} className="grid gap-5">
        {conflict && (
          <ConflictNote
            thing="organization"
            onKeepMine={conflict.onKeepMine}
            onLoadTheirs={() => {
              conflict.onLoadTheirs();
              setLogo({ kind: "same" });
            }}
            rows={[{ name: "name", label: "Name" } as const, { name: "ein", label: "EIN" } as const, ...texts].map(
              ({ name, label }) => ({ name: label, value: conflict.theirs[name] }),
            )}
          />
        )}
        <LogoField url={base?.logo_url ?? null} value={logo} onChange={setLogo} onPreparing={setPreparingLogo} />
        <div className="grid gap-5 sm:grid-cols-[minmax(0,2fr)_minmax(0,1fr)]">
          <FormField
            label="Organization Name"
            error={errors.name?.message}
            limit={{ used: watch("name").length, of: organizationLimits.name }}
          >
            <Input autoComplete="organization" {...register("name")} />
          </FormField>
          <FormField label="EIN" error={errors.ein?.message}>
            <Input autoComplete="off" placeholder="XX-XXXXXXX" {...register("ein")} />
          </FormField>
        </div>
        <div className="grid gap-5 lg:grid-cols-3">
          {texts.map(({ name, label, placeholder }) => (
            <FormField
              key={name}
              label={label}
              error={errors[name]?.message}
              limit={{ used: watch(name).length, of: organizationLimits.text }}
            >
              <Textarea placeholder={placeholder} {...register(name)} />
            </FormField>
          ))}
        </div>
        <div className="flex flex-wrap justify-end gap-2">
          <Button variant="secondary" onClick={() => (dirty ? setAsking(true) : onDone())}>
            Cancel
          </Button>
          <SubmitButton busy={busy} busyLabel="Saving..." disabled={preparingLogo}>
            Save
          </SubmitButton>
        </div>
      </fieldset>
      <UnsavedGuard when={dirty} asking={asking} onKeep={() => setAsking(false)} onDiscard={onDone} />
    </form>
  );
}
