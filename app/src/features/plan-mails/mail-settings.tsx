import { useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { FormField } from "@/components/form-field";
import { ErrorState } from "@/components/page-state";
import { Select } from "@/components/ui/select";
import { Skeleton } from "@/components/ui/skeleton";
import { Switch } from "@/components/ui/switch";
import { ownTimeZone } from "@/lib/dates";
import { messageOf } from "@/lib/errors";
import {
  type MailColumn,
  mailKinds,
  type PlanMails,
  planMailsQuery,
  timeZoneQuery,
  useSetPlanMails,
  useSetTimeZone,
} from "./queries";

const kinds = Object.values(mailKinds);

/** Which mails a person gets about their plans, and in which time zone. */
export function MailSettings({ userId }: { userId: string }) {
  const plans = useQuery(planMailsQuery(userId));
  const zone = useQuery(timeZoneQuery(userId));
  const save = useSetPlanMails(userId);
  const saveZone = useSetTimeZone(userId);

  if (plans.isPending || zone.isPending) {
    return (
      <div role="status" className="grid gap-3">
        <span className="sr-only">Loading the mail settings...</span>
        <Skeleton className="h-11" />
        <Skeleton className="h-20" />
      </div>
    );
  }
  if (!plans.data) {
    return (
      <ErrorState
        size="small"
        heading="h3"
        title="The mail settings could not be loaded"
        description={messageOf(plans.error)}
        retrying={plans.isFetching}
        onRetry={() => void plans.refetch()}
      />
    );
  }
  const current = zone.data ?? "UTC";
  const change = (plan: PlanMails, column: MailColumn, wanted: boolean) => save.mutate({ ...plan, [column]: wanted });
  return (
    <div className="grid gap-6">
      <FormField label="Time zone" hint="Mails come at 8 in the morning there" className="max-w-md">
        <Select value={current} disabled={saveZone.isPending} onChange={({ target }) => saveZone.mutate(target.value)}>
          {zonesWith(current).map((name) => (
            <option key={name} value={name}>
              {name.replaceAll("_", " ")}
            </option>
          ))}
        </Select>
      </FormField>
      {plans.data.length === 0 ? (
        <p className="text-muted-foreground text-sm">You have no plans yet.</p>
      ) : (
        <ul className="grid gap-5">
          {plans.data.map((plan) => (
            <li key={plan.planId}>
              <PlanSwitches plan={plan} onChange={(column, wanted) => change(plan, column, wanted)} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

interface PlanSwitchesProps {
  plan: PlanMails;
  onChange: (column: MailColumn, wanted: boolean) => void;
}

function PlanSwitches({ plan, onChange }: PlanSwitchesProps) {
  const id = useId();
  return (
    <fieldset className="min-w-0">
      <legend dir="auto" className="mb-2 font-medium text-sm [overflow-wrap:anywhere]">
        {plan.title}
      </legend>
      <div className="flex flex-wrap gap-x-8 gap-y-2">
        {kinds.map(({ column, name }) => (
          <div key={column} className="flex min-h-11 items-center gap-3">
            <Switch
              id={`${id}-${column}`}
              checked={plan[column]}
              onCheckedChange={(wanted) => onChange(column, wanted)}
            />
            <label htmlFor={`${id}-${column}`} className="text-sm">
              {name}
            </label>
          </div>
        ))}
      </div>
    </fieldset>
  );
}

/** The browser's time zones, with its own and the one that is set: some are known under another name. */
function zonesWith(current: string) {
  return [...new Set(["UTC", current, ownTimeZone(), ...Intl.supportedValuesOf("timeZone")])].sort();
}
