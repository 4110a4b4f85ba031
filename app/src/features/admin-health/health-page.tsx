import { useQuery } from "@tanstack/react-query";
import {
  ArchiveIcon,
  DatabaseIcon,
  HardDriveIcon,
  type LucideIcon,
  MailIcon,
  UsersIcon,
  WebhookIcon,
} from "lucide-react";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { PageHeading } from "@/components/page-heading";
import { ErrorState } from "@/components/page-state";
import { SubmitButton } from "@/components/submit-button";
import { Badge } from "@/components/ui/badge";
import { Card } from "@/components/ui/card";
import { Skeleton } from "@/components/ui/skeleton";
import { formatBytes } from "@/lib/bytes";
import { formatAge } from "@/lib/dates";
import { messageOf } from "@/lib/errors";
import { type Health, healthQuery, useRetryMails } from "./queries";

export function HealthPage() {
  const health = useQuery(healthQuery());
  return (
    <>
      <PageHeading title="Health" subtitle="How the server is doing, looked at every half minute" />
      {health.isPending ? (
        <div role="status" className="grid gap-4 md:grid-cols-2">
          <span className="sr-only">Loading...</span>
          {["first", "second", "third", "fourth"].map((card) => (
            <Skeleton key={card} className="h-48 rounded-xl" />
          ))}
        </div>
      ) : !health.data ? (
        <Card>
          <ErrorState
            title="The server's health could not be loaded"
            description={messageOf(health.error)}
            retrying={health.isFetching}
            onRetry={() => void health.refetch()}
          />
        </Card>
      ) : (
        <Figures health={health.data} />
      )}
    </>
  );
}

/** Allows for the duration of a large backup. */
const OVERDUE_AFTER_MS = 12 * 3_600_000;

const count = (number: number) => number.toLocaleString("en-US");

function Figures({ health }: { health: Health }) {
  const { webhooks, storage, accounts, versions } = health;
  const files = storage.reduce((sum, bucket) => sum + bucket.bytes, 0);
  return (
    <div className="grid gap-4 md:grid-cols-2">
      <Panel
        icon={WebhookIcon}
        title="Webhook inbox"
        state={webhooks.failed > 0 ? <Badge tone="warning">{count(webhooks.failed)} failed</Badge> : <Fine />}
        facts={[
          ["Processed", count(webhooks.processed)],
          ["Pending", count(webhooks.pending)],
          ["Failed", count(webhooks.failed)],
          ["Oldest pending", webhooks.oldest_pending ? formatAge(webhooks.oldest_pending) : "None"],
          ["Newest event", webhooks.newest ? formatAge(webhooks.newest) : "None yet"],
        ]}
      >
        <Link to="/admin/webhooks" className="text-primary text-sm hover:underline">
          Webhook Management
        </Link>
      </Panel>
      <MailPanel health={health} />
      <BackupPanel health={health} />
      <Panel
        icon={HardDriveIcon}
        title="Storage"
        state={<Badge tone="neutral">{formatBytes(files)}</Badge>}
        facts={storage.map(({ bucket, files: number, bytes }) => [
          bucket,
          `${count(number)} ${number === 1 ? "file" : "files"}, ${formatBytes(bytes)}`,
        ])}
      />
      <Panel
        icon={UsersIcon}
        title="Accounts"
        state={<Badge tone="neutral">{count(accounts.all)}</Badge>}
        facts={[
          ["Unconfirmed", count(accounts.unconfirmed)],
          ["Disabled", count(accounts.disabled)],
        ]}
      />
      <Panel
        icon={DatabaseIcon}
        title="Database and versions"
        state={<Badge tone="neutral">{formatBytes(health.database_bytes)}</Badge>}
        facts={[
          ["PostgreSQL", versions.postgresql],
          ["App's schema", versions.app_migration ?? "Unknown"],
          ["Server's clock", new Date(health.server_time).toLocaleString()],
        ]}
      />
    </div>
  );
}

function MailPanel({ health: { mail, mail_configured: isConfigured } }: { health: Health }) {
  const retry = useRetryMails();
  const state =
    mail.abandoned > 0 ? (
      <Badge tone="destructive">{count(mail.abandoned)} not delivered</Badge>
    ) : mail.waiting > 0 && mail.last_error ? (
      <Badge tone="warning">{count(mail.waiting)} delayed</Badge>
    ) : isConfigured ? (
      <Fine />
    ) : (
      <Badge tone="neutral">No key saved</Badge>
    );
  return (
    <Panel
      icon={MailIcon}
      title="E-mail"
      state={state}
      facts={[
        ["Sent through", isConfigured ? "Resend" : "The server's own mail settings"],
        ["Waiting", count(mail.waiting)],
        ["Oldest waiting", mail.oldest_waiting ? formatAge(mail.oldest_waiting) : "None"],
        ["Abandoned", count(mail.abandoned)],
      ]}
    >
      {mail.last_error && <LastError text={mail.last_error} />}
      <div className="flex flex-wrap items-center justify-between gap-3">
        <Link to="/admin/integrations/email" className="text-primary text-sm hover:underline">
          Email Integration
        </Link>
        {(mail.abandoned > 0 || (mail.waiting > 0 && mail.last_error)) && (
          <SubmitButton
            type="button"
            variant="secondary"
            size="small"
            busy={retry.isPending}
            busyLabel="Retrying..."
            disabled={retry.isPending}
            onClick={() => retry.mutate()}
          >
            Retry
          </SubmitButton>
        )}
      </div>
    </Panel>
  );
}

function BackupPanel({ health }: { health: Health }) {
  const { backup, verify } = health.backup;
  const error = backup.error ?? verify.error;
  return (
    <Panel
      icon={ArchiveIcon}
      title="Backups"
      state={<BackupState health={health} />}
      facts={[
        ["Last backup", backup.succeeded_at ? formatAge(backup.succeeded_at) : "None"],
        ["Last verified", verify.succeeded_at ? formatAge(verify.succeeded_at) : "Never"],
        ["Next backup", backup.due_at ? new Date(backup.due_at).toLocaleString() : "None"],
      ]}
    >
      {error && <LastError text={error} />}
    </Panel>
  );
}

function BackupState({ health: { backup: runs, server_time: now } }: { health: Health }) {
  const { backup, verify } = runs;
  if (backup.error || verify.error) {
    return <Badge tone="destructive">{backup.error ? "Backup failed" : "Verification failed"}</Badge>;
  }
  if (!backup.succeeded_at) {
    return <Badge tone="warning">No backup yet</Badge>;
  }
  if (!backup.due_at) {
    return <Badge tone="warning">Not scheduled</Badge>;
  }
  const isOverdue = Date.parse(backup.due_at) + OVERDUE_AFTER_MS < Date.parse(now);
  return isOverdue ? <Badge tone="warning">Overdue</Badge> : <Fine />;
}

function LastError({ text }: { text: string }) {
  return (
    <div className="text-sm">
      <p className="text-muted-foreground">Last error</p>
      <p className="[overflow-wrap:anywhere]">{text}</p>
    </div>
  );
}

function Fine() {
  return <Badge tone="success">Fine</Badge>;
}

interface PanelProps {
  icon: LucideIcon;
  title: string;
  state: ReactNode;
  facts: readonly (readonly [string, string])[];
  children?: ReactNode;
}

function Panel({ icon: Icon, title, state, facts, children }: PanelProps) {
  return (
    <Card className="grid content-start gap-4 p-5">
      <div className="flex items-center justify-between gap-3">
        <h2 className="flex items-center gap-2.5 text-label">
          <Icon className="size-4.5 text-muted-foreground" aria-hidden />
          {title}
        </h2>
        {state}
      </div>
      <dl className="grid gap-2 text-sm">
        {facts.map(([name, value]) => (
          <div key={name} className="flex justify-between gap-4">
            <dt className="text-muted-foreground [overflow-wrap:anywhere]">{name}</dt>
            <dd className="text-end tabular-nums">{value}</dd>
          </div>
        ))}
      </dl>
      {children}
    </Card>
  );
}
