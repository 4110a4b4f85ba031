import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { LoadMore } from "@/components/load-more";
import { ErrorState } from "@/components/page-state";
import { PersonFace } from "@/components/person-face";
import { Dialog, DialogContent } from "@/components/ui/dialog";
import { DialogBody } from "@/components/ui/dialog-panel";
import { Skeleton } from "@/components/ui/skeleton";
import { formatInstant } from "@/lib/dates";
import { messageOf } from "@/lib/errors";
import { peopleQuery } from "@/lib/people";
import { type Activity, activityQuery } from "./queries";
import { dayHeading, deedOf } from "./sentence";

interface ActivityDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  planId: string;
}

/** Who did what in a plan. */
export function ActivityDialog({ open, onOpenChange, planId }: ActivityDialogProps) {
  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent title="Activity" description="Who did what in this plan in the last 90 days" size="wide">
        <DialogBody>
          <ActivityList planId={planId} />
        </DialogBody>
      </DialogContent>
    </Dialog>
  );
}

function ActivityList({ planId }: { planId: string }) {
  const activity = useInfiniteQuery(activityQuery(planId));
  const people = useQuery(peopleQuery(planId));
  if (activity.isPending || people.isPending) {
    return (
      <div role="status" className="grid gap-3">
        <span className="sr-only">Loading the activity...</span>
        <Skeleton className="h-10" />
        <Skeleton className="h-10 w-4/5" />
        <Skeleton className="h-10 w-3/5" />
      </div>
    );
  }
  if (!activity.data) {
    return (
      <ErrorState
        size="small"
        title="The activity could not be loaded"
        description={messageOf(activity.error)}
        retrying={activity.isFetching}
        onRetry={() => void activity.refetch()}
      />
    );
  }
  if (activity.data.length === 0) {
    return <p className="py-6 text-center text-muted-foreground text-sm">Nothing happened in the last 90 days.</p>;
  }
  return (
    <>
      {byDay(activity.data).map(([heading, entries]) => (
        <section key={heading} className="mb-5">
          <h3 className="mb-2 font-semibold text-muted-foreground text-xs">{heading}</h3>
          <ol className="grid gap-3">
            {entries.map((entry) => {
              const person = entry.actor_id ? people.data?.get(entry.actor_id) : undefined;
              return (
                <li key={entry.id} className="flex gap-3 text-sm">
                  <PersonFace person={person} className="size-7 text-xs" />
                  <p className="min-w-0 grow pt-1 [overflow-wrap:anywhere]">
                    <span className="font-semibold">
                      {person?.name ?? (entry.actor_id ? "A former member" : "Someone")}
                    </span>{" "}
                    {deedOf(entry)}
                  </p>
                  <time
                    dateTime={entry.created_at}
                    title={formatInstant(entry.created_at)}
                    className="shrink-0 pt-1 text-muted-foreground text-xs tabular-nums"
                  >
                    {new Date(entry.created_at).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" })}
                  </time>
                </li>
              );
            })}
          </ol>
        </section>
      ))}
      <LoadMore query={activity} />
    </>
  );
}

function byDay(entries: Activity[]) {
  const now = new Date();
  const days = new Map<string, Activity[]>();
  for (const entry of entries) {
    const heading = dayHeading(entry.created_at, now);
    days.set(heading, [...(days.get(heading) ?? []), entry]);
  }
  return [...days];
}
