import { zodResolver } from "@hookform/resolvers/zod";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { FormField } from "@/components/form-field";
import { Loaded } from "@/components/loaded";
import { StaleAlert } from "@/components/stale-alert";
import { SubmitButton } from "@/components/submit-button";
import { Card } from "@/components/ui/card";
import { Input, Textarea } from "@/components/ui/input";
import { UnsavedGuard } from "@/components/unsaved-guard";
import { useRowForm } from "@/hooks/use-row-form";
import { type OperatorRow, operatorSettingQuery, useSaveOperator } from "./operator-queries";
import { limits, type Operator, operatorSchema } from "./schema";

const noOperator: Operator = { name: "", address: "", email: "" };

/** Who runs the site, as the terms and the privacy policy show it. */
export function OperatorSettings() {
  const operator = useQuery(operatorSettingQuery());
  return (
    <Card className="p-5 sm:p-6">
      <h2 className="text-heading">Operator</h2>
      <p className="mt-1 mb-6 text-muted-foreground text-sm">
        Who runs this site. Everyone can read it in the <PageLink to="/terms">terms</PageLink> and the{" "}
        <PageLink to="/privacy">privacy policy</PageLink>.
      </p>
      <Loaded query={operator} loading="Loading settings..." failed="Failed to load settings.">
        {(row) => <OperatorForm row={row} />}
      </Loaded>
    </Card>
  );
}

function OperatorForm({ row }: { row: OperatorRow | null }) {
  const save = useSaveOperator();
  const { conflict, formState, register, submit, watch } = useRowForm({
    row,
    resolver: zodResolver(operatorSchema),
    inputOf: (setting: OperatorRow | null) => setting?.value ?? noOperator,
    save: save.mutateAsync,
  });
  const { errors, isDirty, isSubmitting } = formState;
  const { name, address } = watch();
  return (
    <form noValidate onSubmit={(event) => void submit(event)}>
      <fieldset disabled={isSubmitting} className="grid min-w-0 max-w-xl gap-5">
        {conflict && <StaleAlert {...conflict} />}
        <FormField
          label="Name"
          error={errors.name?.message}
          hint="The organization, or the person, that answers for this site"
          limit={{ used: name.length, of: limits.name }}
        >
          <Input autoComplete="off" placeholder="Riverside Community Trust" {...register("name")} />
        </FormField>
        <FormField
          label="Postal Address"
          error={errors.address?.message}
          limit={{ used: address.length, of: limits.address }}
        >
          <Textarea autoComplete="off" {...register("address")} />
        </FormField>
        <FormField
          label="Contact Email"
          error={errors.email?.message}
          hint="For questions about the terms, and about what is stored"
        >
          <Input type="email" autoComplete="off" placeholder="hello@example.org" {...register("email")} />
        </FormField>
        <SubmitButton busy={isSubmitting} busyLabel="Saving..." className="justify-self-start">
          Save Operator
        </SubmitButton>
      </fieldset>
      <UnsavedGuard when={isDirty && !isSubmitting} />
    </form>
  );
}

function PageLink({ to, children }: { to: string; children: string }) {
  return (
    <Link to={to} className="text-primary underline underline-offset-2">
      {children}
    </Link>
  );
}
