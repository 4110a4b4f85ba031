import { useInfiniteQuery } from "@tanstack/react-query";
import { BanIcon, CircleCheckIcon, SearchXIcon, ShieldCheckIcon, ShieldOffIcon } from "lucide-react";
import { useState } from "react";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { FormField } from "@/components/form-field";
import { LoadMore } from "@/components/load-more";
import { PageHeading } from "@/components/page-heading";
import { ErrorState, PageState } from "@/components/page-state";
import { Badge } from "@/components/ui/badge";
import { Card } from "@/components/ui/card";
import { type Column, DataTable } from "@/components/ui/data-table";
import { DropdownMenu, DropdownMenuContent, DropdownMenuItem, MoreButton } from "@/components/ui/dropdown-menu";
import { Input } from "@/components/ui/input";
import { Skeleton } from "@/components/ui/skeleton";
import { useDebounced } from "@/hooks/use-debounced";
import { formatAge, formatInstant } from "@/lib/dates";
import { messageOf } from "@/lib/errors";
import { type Account, useAppoint, useDismiss, userListQuery, useSetDisabled } from "./queries";

type Action = "appoint" | "dismiss" | "disable" | "enable";

const nameOf = ({ email, name, id }: Account) => email ?? name ?? id;

export function UserList({ ownId }: { ownId: string }) {
  const [typed, setTyped] = useState("");
  const search = useDebounced(typed.trim());
  const users = useInfiniteQuery(userListQuery(search));
  const [action, setAction] = useState<Action | null>(null);
  // Outlives its dialog, which still shows it while it fades.
  const [subject, setSubject] = useState<Account | null>(null);

  const ask = (next: Action, account: Account) => {
    setSubject(account);
    setAction(next);
  };

  const columns: Column<Account>[] = [
    {
      key: "account",
      header: "Account",
      isRowHeader: true,
      className: "max-md:pe-10",
      cell: ({ email, name, organization }) => (
        <span className="grid min-w-0">
          <span>{email ?? "No address"}</span>
          <span className="font-normal text-muted-foreground text-xs">
            {[name, organization].filter(Boolean).join(", ")}
          </span>
        </span>
      ),
    },
    {
      key: "role",
      header: "Role",
      cell: ({ is_admin }) => (is_admin ? <Badge tone="primary">Admin</Badge> : "User"),
    },
    { key: "status", header: "Status", cell: (account) => <Status account={account} /> },
    {
      key: "subscription",
      header: "Subscription",
      cell: ({ subscription_status: status }) => (
        <span className="capitalize">{status?.replace("_", " ") ?? "None"}</span>
      ),
    },
    {
      key: "joined",
      header: "Joined",
      className: "md:whitespace-nowrap",
      cell: ({ created_at }) => <Age instant={created_at} />,
    },
    {
      key: "seen",
      header: "Last sign-in",
      className: "md:whitespace-nowrap",
      cell: ({ last_sign_in_at }) => (last_sign_in_at ? <Age instant={last_sign_in_at} /> : "Never"),
    },
    {
      key: "actions",
      header: "Actions",
      unlabelled: true,
      align: "end",
      // On a phone beside the name, not below all the rest.
      className: "md:w-16 max-md:absolute max-md:end-2 max-md:top-1.5",
      cell: (account) => (
        <DropdownMenu>
          <MoreButton label={`Actions for ${nameOf(account)}`} />
          <DropdownMenuContent align="end">
            {account.is_admin ? (
              <DropdownMenuItem onSelect={() => ask("dismiss", account)}>
                <ShieldOffIcon aria-hidden />
                Dismiss as administrator
              </DropdownMenuItem>
            ) : (
              <DropdownMenuItem onSelect={() => ask("appoint", account)}>
                <ShieldCheckIcon aria-hidden />
                Appoint administrator
              </DropdownMenuItem>
            )}
            {account.is_disabled ? (
              <DropdownMenuItem onSelect={() => ask("enable", account)}>
                <CircleCheckIcon aria-hidden />
                Enable account
              </DropdownMenuItem>
            ) : (
              <DropdownMenuItem
                tone="destructive"
                disabled={account.id === ownId}
                onSelect={() => ask("disable", account)}
              >
                <BanIcon aria-hidden />
                Disable account
              </DropdownMenuItem>
            )}
          </DropdownMenuContent>
        </DropdownMenu>
      ),
    },
  ];

  return (
    <>
      <PageHeading title="Users" subtitle="Who has an account, who administers the site" />
      <Card>
        <div className="border-b px-4 py-4">
          <FormField label="Search" className="max-w-md">
            <Input
              type="search"
              placeholder="Address, name or organization"
              maxLength={200}
              value={typed}
              onChange={({ target }) => setTyped(target.value)}
            />
          </FormField>
        </div>
        {users.isPending ? (
          <div role="status" className="grid gap-3 p-5">
            <span className="sr-only">Loading users...</span>
            {["first", "second", "third", "fourth"].map((row) => (
              <Skeleton key={row} className="h-11" />
            ))}
          </div>
        ) : !users.data ? (
          <ErrorState
            size="small"
            title="The users could not be loaded"
            description={messageOf(users.error)}
            retrying={users.isFetching}
            onRetry={() => void users.refetch()}
          />
        ) : users.data.accounts.length === 0 ? (
          <PageState
            size="small"
            art={<SearchXIcon className="size-8 text-muted-foreground" aria-hidden />}
            title="No matching users found"
            description="Try a different search term"
          />
        ) : (
          <>
            <DataTable
              showCaption
              caption={`Showing ${users.data.accounts.length} of ${users.data.total} users`}
              columns={columns}
              rows={users.data.accounts}
              rowKey={({ id }) => id}
            />
            <LoadMore query={users} />
          </>
        )}
      </Card>
      {subject && (
        <Question action={action} account={subject} isSelf={subject.id === ownId} onClose={() => setAction(null)} />
      )}
    </>
  );
}

function Age({ instant }: { instant: string }) {
  return (
    <time dateTime={instant} title={formatInstant(instant)}>
      {formatAge(instant)}
    </time>
  );
}

function Status({ account }: { account: Account }) {
  if (account.is_disabled) return <Badge tone="destructive">Disabled</Badge>;
  if (!account.is_confirmed) return <Badge tone="warning">Unconfirmed</Badge>;
  return <Badge tone="success">Active</Badge>;
}

interface QuestionProps {
  action: Action | null;
  account: Account;
  isSelf: boolean;
  onClose: () => void;
}

function Question({ action, account, isSelf, onClose }: QuestionProps) {
  const appoint = useAppoint();
  const dismiss = useDismiss();
  const disable = useSetDisabled(true);
  const enable = useSetDisabled(false);
  const name = nameOf(account);
  const common = { onOpenChange: (open: boolean) => open || onClose() };
  return (
    <>
      <ConfirmDialog
        {...common}
        open={action === "appoint"}
        tone="primary"
        title="Appoint administrator"
        description={`${name} will see and change everything in this area, appoint others, and may dismiss you.`}
        confirmLabel="Appoint"
        busyLabel="Appointing..."
        onConfirm={() => appoint.mutateAsync(account)}
      />
      <ConfirmDialog
        {...common}
        open={action === "dismiss"}
        title="Dismiss as administrator"
        description={
          isSelf
            ? "This is your own account: you will be led out of this area at once."
            : `${name} keeps their account and plans, and loses this area at once.`
        }
        confirmLabel="Dismiss"
        busyLabel="Dismissing..."
        onConfirm={() => dismiss.mutateAsync(account)}
      />
      <ConfirmDialog
        {...common}
        open={action === "disable"}
        title="Disable account"
        description={`${name} cannot sign in any more. Who is signed in now is out within an hour. Their plans stay.`}
        confirmLabel="Disable"
        busyLabel="Disabling..."
        onConfirm={() => disable.mutateAsync(account)}
      />
      <ConfirmDialog
        {...common}
        open={action === "enable"}
        tone="primary"
        title="Enable account"
        description={`${name} can sign in again.`}
        confirmLabel="Enable"
        busyLabel="Enabling..."
        onConfirm={() => enable.mutateAsync(account)}
      />
    </>
  );
}
