import { useQuery } from "@tanstack/react-query";
import { CopyIcon, LinkIcon } from "lucide-react";
import { useState } from "react";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { FormField } from "@/components/form-field";
import { Loaded } from "@/components/loaded";
import { SubmitButton } from "@/components/submit-button";
import { Alert } from "@/components/ui/alert";
import { Badge } from "@/components/ui/badge";
import { Button } from "@/components/ui/button";
import { Input } from "@/components/ui/input";
import { Select } from "@/components/ui/select";
import { formatAge, formatDay } from "@/lib/dates";
import { peopleQuery } from "@/lib/people";
import { toast } from "@/lib/toast";
import { useCreateReportLink, useRevokeReportLink, type ValidDays } from "./mutations";
import { type ReportLink, reportLinksQuery } from "./queries";

/** As many as the database allows. */
const mostLinks = 20;

const lifetimes: { name: string; days: ValidDays }[] = [
  { name: "30 days", days: 30 },
  { name: "1 year", days: 365 },
  { name: "Until revoked", days: null },
];

interface ReportLinksProps {
  planId: string;
  isSaved: boolean;
  /** Something of the report is typed and not saved. */
  isDirty: boolean;
}

/** Links to the saved report, for people without an account. */
export function ReportLinks({ planId, isSaved, isDirty }: ReportLinksProps) {
  const links = useQuery(reportLinksQuery(planId));
  const people = useQuery(peopleQuery(planId));
  const create = useCreateReportLink(planId);
  const revoke = useRevokeReportLink(planId);
  const [lifetime, setLifetime] = useState(0);
  const [revoking, setRevoking] = useState<ReportLink | null>(null);
  const isFull = (links.data?.length ?? 0) >= mostLinks;
  return (
    <div className="grid gap-4">
      <p className="text-muted-foreground text-sm">
        Everyone who has a link can read the saved report with the plan's latest numbers, without an account. They see
        nothing else of the plan, and no names or addresses.
      </p>
      {isDirty && (
        <Alert role="status" tone="warning">
          <p>Your latest changes are not saved. People with a link do not see them yet.</p>
        </Alert>
      )}
      <form
        aria-label="New link"
        className="flex flex-wrap items-end gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate({ isSaved, validDays: lifetimes[lifetime]?.days ?? null });
        }}
      >
        <FormField label="The link works for" className="grow">
          <Select value={lifetime} onChange={({ target }) => setLifetime(Number(target.value))}>
            {lifetimes.map(({ name }, index) => (
              <option key={name} value={index}>
                {name}
              </option>
            ))}
          </Select>
        </FormField>
        <SubmitButton
          variant="secondary"
          busy={create.isPending}
          busyLabel="Creating..."
          disabled={create.isPending || isFull}
        >
          <LinkIcon aria-hidden />
          Create link
        </SubmitButton>
      </form>
      {isFull && (
        <p className="text-muted-foreground text-sm">
          A plan has at most {mostLinks} links. Revoke one that is no longer needed.
        </p>
      )}
      <Loaded query={links} loading="Loading the links..." failed="The links could not be loaded">
        {(rows) =>
          rows.length > 0 && (
            <ul aria-label="Links" className="grid gap-3">
              {rows.map((link) => (
                <LinkItem
                  key={link.id}
                  link={link}
                  author={link.created_by ? people.data?.get(link.created_by)?.name : undefined}
                  onRevoke={() => setRevoking(link)}
                />
              ))}
            </ul>
          )
        }
      </Loaded>
      <ConfirmDialog
        open={revoking !== null}
        onOpenChange={(open) => open || setRevoking(null)}
        title="Revoke this link?"
        description="People who have it can no longer read the report. This cannot be undone, but you can create a new link."
        confirmLabel="Revoke link"
        busyLabel="Revoking..."
        onConfirm={() => (revoking ? revoke.mutateAsync(revoking.id).then(() => setRevoking(null)) : Promise.resolve())}
      />
    </div>
  );
}

interface LinkItemProps {
  link: ReportLink;
  author: string | undefined;
  onRevoke: () => void;
}

function LinkItem({ link, author, onRevoke }: LinkItemProps) {
  const address = `${window.location.origin}/report/${link.token}`;
  const isExpired = link.expires_at !== null && Date.parse(link.expires_at) <= Date.now();
  const name = `link of ${formatDay(link.created_at)}`;
  return (
    <li className="grid gap-2 rounded-md border p-3">
      <div className="flex gap-2">
        <Input
          readOnly
          value={address}
          aria-label={`Address of the ${name}`}
          className="text-muted-foreground"
          onFocus={({ target }) => target.select()}
        />
        {!isExpired && (
          <Button variant="secondary" aria-label={`Copy the ${name}`} onClick={() => void copy(address)}>
            <CopyIcon aria-hidden />
          </Button>
        )}
      </div>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <p className="min-w-0 grow text-muted-foreground text-xs [overflow-wrap:anywhere]">
          Created {formatDay(link.created_at)}
          {author && ` by ${author}`} ·{" "}
          {link.expires_at === null
            ? "works until revoked"
            : `${isExpired ? "expired" : "expires"} ${formatDay(link.expires_at)}`}{" "}
          · {link.last_used_at ? `last opened ${formatAge(link.last_used_at)}` : "not opened yet"}
        </p>
        {isExpired && <Badge tone="warning">Expired</Badge>}
        <Button variant="danger" size="small" aria-label={`Revoke the ${name}`} onClick={onRevoke}>
          Revoke
        </Button>
      </div>
    </li>
  );
}

async function copy(address: string) {
  try {
    await navigator.clipboard.writeText(address);
    toast.success("Link copied");
  } catch {
    // The browser denies the clipboard, or the page was loaded over plain HTTP.
    toast.info("Copy this link", { description: address, duration: 30_000 });
  }
}
