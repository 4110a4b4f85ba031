import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { DeletedEntry } from "@/components/deleted-entry";
import { ErrorState } from "@/components/page-state";
import { Dialog, DialogContent } from "@/components/ui/dialog";
import { DialogBody } from "@/components/ui/dialog-panel";
import { Skeleton } from "@/components/ui/skeleton";
import { deletedItemsKey, useRestoreItem } from "@/hooks/use-restore-item";
import { formatDay, formatInstant } from "@/lib/dates";
import { messageOf } from "@/lib/errors";
import { peopleQuery } from "@/lib/people";
import { useDeleteItemForGood } from "./mutations";
import { type DeletedItem, deletedItemsQuery } from "./queries";

interface DeletedItemsDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  planId: string;
  /** When the plan's priorities or tasks were last fetched: a colleague may have deleted or restored one. */
  changedAt: number;
}

/** What was deleted from a plan, to be restored. */
export function DeletedItemsDialog({ open, onOpenChange, ...props }: DeletedItemsDialogProps) {
  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent
        title="Deleted items"
        description="Priorities and tasks stay here for 30 days after they are deleted"
        size="wide"
      >
        <DialogBody>
          <DeletedItems {...props} />
        </DialogBody>
      </DialogContent>
    </Dialog>
  );
}

function DeletedItems({ planId, changedAt }: Pick<DeletedItemsDialogProps, "planId" | "changedAt">) {
  const queryClient = useQueryClient();
  const items = useQuery(deletedItemsQuery(planId));
  const people = useQuery(peopleQuery(planId));
  const restore = useRestoreItem(planId);
  const remove = useDeleteItemForGood(planId);
  const [subject, setSubject] = useState<DeletedItem | null>(null);
  const [deleting, setDeleting] = useState(false);

  useEffect(() => {
    if (changedAt > 0) void queryClient.invalidateQueries({ queryKey: deletedItemsKey(planId) });
  }, [queryClient, planId, changedAt]);

  if (items.isPending || people.isPending) {
    return (
      <div role="status" className="grid gap-3">
        <span className="sr-only">Loading deleted items...</span>
        <Skeleton className="h-14" />
        <Skeleton className="h-14 w-4/5" />
      </div>
    );
  }
  if (!items.data) {
    return (
      <ErrorState
        size="small"
        heading="h3"
        title="The deleted items could not be loaded"
        description={messageOf(items.error)}
        retrying={items.isFetching}
        onRetry={() => void items.refetch()}
      />
    );
  }
  const list = items.data;
  return (
    <>
      {list.length === 0 && (
        <p className="py-6 text-center text-muted-foreground text-sm">Nothing was deleted in the last 30 days.</p>
      )}
      {list.length > 0 && (
        <ul aria-label="Deleted items" className="divide-y">
          {list.map((item) => {
            const person = item.deleted_by ? people.data?.get(item.deleted_by) : undefined;
            const name = person?.name ?? (item.deleted_by ? "a former member" : null);
            return (
              <DeletedEntry
                key={item.id}
                title={item.title}
                restoring={restore.isPending && restore.variables.id === item.id}
                disabled={restore.isPending}
                onRestore={item.is_restorable ? () => restore.mutate(item) : null}
                onDeleteForGood={() => {
                  setSubject(item);
                  setDeleting(true);
                }}
              >
                <p className="text-muted-foreground text-sm [overflow-wrap:anywhere]">
                  {contentsOf(item)}. Deleted{" "}
                  <time dateTime={item.deleted_at} title={formatInstant(item.deleted_at)}>
                    {formatDay(item.deleted_at)}
                  </time>
                  {name && ` by ${name}`}. Kept until {formatDay(item.deleted_for_good_at)}.
                </p>
                {!item.is_restorable && (
                  <p className="mt-1 text-sm">
                    {list.some(({ id }) => id === item.priority_id)
                      ? "Its priority was deleted, too. Restore that first."
                      : "It cannot be restored: its priority no longer exists."}
                  </p>
                )}
              </DeletedEntry>
            );
          })}
        </ul>
      )}
      {subject && (
        <ConfirmDialog
          open={deleting}
          onOpenChange={setDeleting}
          title="Delete for Good"
          description={`Are you sure you want to delete “${subject.title}” for good? This action cannot be undone.`}
          confirmLabel="Delete for Good"
          busyLabel="Deleting..."
          onConfirm={() => remove.mutateAsync(subject)}
        />
      )}
    </>
  );
}

/** "Priority with 2 tasks and 1 comment" */
function contentsOf({ kind, tasks, comments }: DeletedItem) {
  const parts = [
    tasks > 0 && `${tasks} ${tasks === 1 ? "task" : "tasks"}`,
    comments > 0 && `${comments} ${comments === 1 ? "comment" : "comments"}`,
  ].filter(Boolean);
  return `${kind === "task" ? "Task" : "Priority"}${parts.length > 0 ? ` with ${parts.join(" and ")}` : ""}`;
}
