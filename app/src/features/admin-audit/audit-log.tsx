import { useInfiniteQuery } from "@tanstack/react-query";
import { ScrollTextIcon } from "lucide-react";
import { useState } from "react";
import { FormField } from "@/components/form-field";
import { LoadMore } from "@/components/load-more";
import { PageHeading } from "@/components/page-heading";
import { ErrorState, PageState } from "@/components/page-state";
import { Badge } from "@/components/ui/badge";
import { Card } from "@/components/ui/card";
import { Collapsible, CollapsibleContent, CollapsibleTrigger } from "@/components/ui/collapsible";
import { type Column, DataTable } from "@/components/ui/data-table";
import { Input } from "@/components/ui/input";
import { Skeleton } from "@/components/ui/skeleton";
import { useDebounced } from "@/hooks/use-debounced";
import { messageOf } from "@/lib/errors";
import { auditLogQuery, type LogLine } from "./queries";
import { sentenceOf } from "./sentence";

const actions: Record<string, { label: string; tone: "success" | "info" | "destructive" }> = {
  insert: { label: "Added", tone: "success" },
  update: { label: "Changed", tone: "info" },
  delete: { label: "Deleted", tone: "destructive" },
  disable: { label: "Disabled", tone: "destructive" },
  enable: { label: "Enabled", tone: "success" },
  set_webhook_secret: { label: "Saved", tone: "info" },
  replay: { label: "Replayed", tone: "info" },
  test_email: { label: "Sent", tone: "info" },
  retry_mails: { label: "Retried", tone: "info" },
};

const columns: Column<LogLine>[] = [
  {
    key: "time",
    header: "Time",
    className: "md:w-48",
    cell: ({ created_at }) => (
      <time dateTime={created_at} className="whitespace-nowrap">
        {new Date(created_at).toLocaleString()}
      </time>
    ),
  },
  {
    key: "actor",
    header: "Who",
    isRowHeader: true,
    cell: ({ actor_id, actor_email, actor_name }) => {
      const address = actor_email ?? actor_id ?? "Server";
      if (!actor_name) return address;
      return (
        <span className="grid min-w-0 [overflow-wrap:anywhere]">
          <span dir="auto">{actor_name}</span>
          <span className="font-normal text-muted-foreground text-xs">{address}</span>
        </span>
      );
    },
  },
  {
    key: "action",
    header: "Action",
    className: "md:w-32",
    cell: ({ action }) => <Badge tone={actions[action]?.tone ?? "neutral"}>{actions[action]?.label ?? action}</Badge>,
  },
  {
    key: "subject",
    header: "What",
    cell: (line) => (
      <span className="grid">
        <span className="[overflow-wrap:anywhere]">{sentenceOf(line)}</span>
        <span
          title={line.subject_id ?? undefined}
          className="font-mono text-muted-foreground text-xs md:max-w-44 md:truncate"
        >
          {line.subject_id}
        </span>
      </span>
    ),
  },
  {
    key: "details",
    header: "Details",
    unlabelled: true,
    className: "md:w-56",
    cell: (line) => <Details line={line} />,
  },
];

function Details({ line }: { line: LogLine }) {
  const text = JSON.stringify(line.details, null, 2);
  if (text === "{}") return null;
  return (
    <Collapsible>
      <CollapsibleTrigger className="font-medium">
        Details<span className="sr-only"> of line {line.id}</span>
      </CollapsibleTrigger>
      <CollapsibleContent>
        <pre className="max-h-64 overflow-auto whitespace-pre-wrap rounded-md bg-muted p-2 font-mono text-xs [overflow-wrap:anywhere]">
          {text}
        </pre>
      </CollapsibleContent>
    </Collapsible>
  );
}

export function AuditLog() {
  const [typed, setTyped] = useState("");
  const search = useDebounced(typed.trim());
  const log = useInfiniteQuery(auditLogQuery(search));
  return (
    <>
      <PageHeading title="Audit Log" subtitle="What administrators and the server changed. Entries cannot be edited" />
      <Card>
        <div className="border-b px-4 py-4">
          <FormField label="Search" className="max-w-md">
            <Input
              type="search"
              placeholder="Name, address, action or subject"
              maxLength={200}
              value={typed}
              onChange={({ target }) => setTyped(target.value)}
            />
          </FormField>
        </div>
        {log.isPending ? (
          <div role="status" className="grid gap-3 p-5">
            <span className="sr-only">Loading the audit log...</span>
            {["first", "second", "third", "fourth"].map((row) => (
              <Skeleton key={row} className="h-11" />
            ))}
          </div>
        ) : !log.data ? (
          <ErrorState
            size="small"
            title="The audit log could not be loaded"
            description={messageOf(log.error)}
            retrying={log.isFetching}
            onRetry={() => void log.refetch()}
          />
        ) : log.data.lines.length === 0 ? (
          <PageState
            size="small"
            art={<ScrollTextIcon className="size-8 text-muted-foreground" aria-hidden />}
            title={search ? "No matching lines found" : "Nothing has been changed yet"}
            description={search ? "Try a different search term" : "Each change of an administrator leaves a line here."}
          />
        ) : (
          <>
            <DataTable
              showCaption
              caption={`Showing ${log.data.lines.length} of ${log.data.total} lines`}
              columns={columns}
              rows={log.data.lines}
              rowKey={({ id }) => String(id)}
            />
            <LoadMore query={log} />
          </>
        )}
      </Card>
    </>
  );
}
