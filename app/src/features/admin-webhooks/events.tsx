import { useInfiniteQuery } from "@tanstack/react-query";
import { CircleCheckIcon, CircleXIcon, ClockIcon, EyeIcon, InboxIcon, RotateCcwIcon, SearchXIcon } from "lucide-react";
import { useState } from "react";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { FormField } from "@/components/form-field";
import { lazyDialog } from "@/components/lazy-part";
import { LoadMore } from "@/components/load-more";
import { ErrorState, PageState } from "@/components/page-state";
import { Badge } from "@/components/ui/badge";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { type Column, DataTable } from "@/components/ui/data-table";
import { Input } from "@/components/ui/input";
import { Select } from "@/components/ui/select";
import { Spinner } from "@/components/ui/spinner";
import { useDebounced } from "@/hooks/use-debounced";
import { cn } from "@/lib/cn";
import { messageOf } from "@/lib/errors";
import { eventsQuery, useReplayEvent, type WebhookEvent } from "./queries";

const EventDetails = lazyDialog(() => import("./event-details").then(({ EventDetails }) => EventDetails));

type OpenDialog = "details" | "replay" | null;

export function Events() {
  const [source, setSource] = useState("all");
  const [typed, setTyped] = useState("");
  const search = useDebounced(typed.trim());
  const events = useInfiniteQuery(eventsQuery(source, search));
  const replay = useReplayEvent();
  const [openDialog, setOpenDialog] = useState<OpenDialog>(null);
  // Outlives its dialog, which still shows it while it fades.
  const [subject, setSubject] = useState<WebhookEvent | null>(null);

  const show = (dialog: OpenDialog, event: WebhookEvent) => {
    setSubject(event);
    setOpenDialog(dialog);
  };
  const closeUnless = (open: boolean) => open || setOpenDialog(null);

  const columns: Column<WebhookEvent>[] = [
    {
      key: "date",
      header: "Date",
      className: "md:w-48",
      cell: ({ created_at }) => (
        <time dateTime={created_at} className="whitespace-nowrap">
          {new Date(created_at).toLocaleString()}
        </time>
      ),
    },
    {
      key: "source",
      header: "Source",
      className: "md:w-24",
      cell: ({ source: from }) => (
        <Badge tone="outline" className="capitalize">
          {from}
        </Badge>
      ),
    },
    { key: "type", header: "Event Type", isRowHeader: true, cell: ({ event_type }) => event_type },
    { key: "status", header: "Status", className: "md:w-32", cell: ({ status }) => <Status status={status} /> },
    {
      key: "actions",
      header: "Actions",
      unlabelled: true,
      align: "end",
      className: "md:w-52",
      cell: (event) => (
        <span className="flex gap-2 max-md:pt-2 md:justify-end">
          <Button variant="secondary" size="small" onClick={() => show("details", event)}>
            <EyeIcon aria-hidden />
            Details<span className="sr-only"> of {event.id}</span>
          </Button>
          {event.status === "failed" && (
            <Button variant="secondary" size="small" onClick={() => show("replay", event)}>
              <RotateCcwIcon aria-hidden />
              Replay<span className="sr-only"> {event.id}</span>
            </Button>
          )}
        </span>
      ),
    },
  ];

  return (
    <Card>
      <div className="grid gap-4 border-b px-4 py-4">
        <h2 className="text-heading">Webhook Events</h2>
        <div className="grid gap-4 sm:grid-cols-[12rem_1fr]">
          <FormField label="Source">
            <Select value={source} onChange={({ target }) => setSource(target.value)}>
              <option value="all">All Sources</option>
              <option value="stripe">Stripe</option>
            </Select>
          </FormField>
          <FormField label="Search">
            <Input
              type="search"
              placeholder="Search events..."
              maxLength={200}
              value={typed}
              onChange={({ target }) => setTyped(target.value)}
            />
          </FormField>
        </div>
      </div>
      {events.isPending ? (
        <div role="status" className="grid h-48 place-items-center">
          <Spinner className="size-7 text-primary" />
          <span className="sr-only">Loading webhook events...</span>
        </div>
      ) : !events.data ? (
        <ErrorState
          size="small"
          heading="h3"
          title="Failed to load webhook events. Please try again."
          description={messageOf(events.error)}
          retrying={events.isFetching}
          onRetry={() => void events.refetch()}
        />
      ) : events.data.length === 0 ? (
        search ? (
          <PageState
            size="small"
            heading="h3"
            art={<SearchXIcon className="size-8 text-muted-foreground" aria-hidden />}
            title="No matching webhook events found"
            description="Try a different search term"
          />
        ) : (
          <PageState
            size="small"
            heading="h3"
            art={<InboxIcon className="size-8 text-muted-foreground" aria-hidden />}
            title="No webhook events found"
            description="Events will appear here once received"
          />
        )
      ) : (
        <>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reached by the keyboard */}
          <section aria-label="Webhook events" tabIndex={0} className="relative max-h-[500px] overflow-y-auto">
            <DataTable
              stickyHead
              showCaption
              caption={`Showing ${events.data.length} webhook events`}
              columns={columns}
              rows={events.data}
              rowKey={({ id }) => id}
              className={cn(events.isPlaceholderData && "opacity-60")}
            />
          </section>
          <LoadMore query={events} />
        </>
      )}

      {subject && (
        <>
          <EventDetails open={openDialog === "details"} onOpenChange={closeUnless} event={subject} />
          <ConfirmDialog
            open={openDialog === "replay"}
            onOpenChange={closeUnless}
            tone="primary"
            title="Replay Webhook Event"
            description="The replay adds extra metadata to the payload to improve success."
            confirmLabel="Replay Event"
            busyLabel="Replaying..."
            onConfirm={() => replay.mutateAsync(subject)}
          >
            <dl className="grid grid-cols-[7rem_1fr] gap-x-4 gap-y-2 text-sm [overflow-wrap:anywhere]">
              <dt className="text-muted-foreground">Event Type</dt>
              <dd>{subject.event_type}</dd>
              <dt className="text-muted-foreground">Created</dt>
              <dd>{new Date(subject.created_at).toLocaleString()}</dd>
              <dt className="text-muted-foreground">Previous Error</dt>
              <dd>{subject.error_message ?? "None"}</dd>
            </dl>
          </ConfirmDialog>
        </>
      )}
    </Card>
  );
}

function Status({ status }: { status: string }) {
  const [tone, Icon, label] =
    status === "processed"
      ? (["success", CircleCheckIcon, "Processed"] as const)
      : status === "failed"
        ? (["destructive", CircleXIcon, "Failed"] as const)
        : (["warning", ClockIcon, "Pending"] as const);
  return (
    <Badge tone={tone}>
      <Icon aria-hidden />
      {label}
    </Badge>
  );
}
