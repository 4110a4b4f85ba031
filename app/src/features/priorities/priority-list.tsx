import { useQuery } from "@tanstack/react-query";
import { PlusIcon } from "lucide-react";
import { type ReactNode, useState } from "react";
import { ColumnsChart } from "@/components/columns-chart";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { lazyDialog } from "@/components/lazy-part";
import { ErrorState, PageState } from "@/components/page-state";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { Skeleton } from "@/components/ui/skeleton";
import { useRename } from "@/hooks/use-rename";
import { messageOf } from "@/lib/errors";
import type { Done } from "@/lib/progress";
import { useDeletePriority } from "./mutations";
import { PriorityCard } from "./priority-card";
import { type Priority, priorityKeys, priorityListQuery } from "./queries";

const PriorityDialog = lazyDialog(() => import("./priority-dialog").then(({ PriorityDialog }) => PriorityDialog));

interface PriorityListProps {
  planId: string;
  editable: boolean;
  /** How far the tasks of a priority are. */
  doneOf: (priorityId: string) => Done;
  /** Draws the tasks of a priority. */
  renderTasks: (priority: Priority) => ReactNode;
  /** Whether the tasks are in view at first: not where there are very many. */
  startOpen: boolean;
  /** More actions beside Add Priority. */
  actions?: ReactNode;
}

// The goals stand; nothing has grown yet.
const firstPriorities = ["one", "two"].map((key) => ({ key, percent: 0 }));

type OpenDialog = "create" | "edit" | "delete" | null;

export function PriorityList({ planId, editable, doneOf, renderTasks, startOpen, actions }: PriorityListProps) {
  const priorities = useQuery(priorityListQuery(planId));
  const deletePriority = useDeletePriority(planId);
  const rename = useRename({ table: "priorities", thing: "priority", refetches: [priorityKeys.list(planId)] });
  const [openDialog, setOpenDialog] = useState<OpenDialog>(null);
  const [subject, setSubject] = useState<Priority | null>(null);
  // Those that the person folded the other way than they were at first.
  const [turned, setTurned] = useState<ReadonlySet<string>>(new Set());
  const current = subject && (priorities.data?.find(({ id }) => id === subject.id) ?? subject);
  const closeUnless = (open: boolean) => open || setOpenDialog(null);

  function show(dialog: OpenDialog, priority: Priority) {
    setSubject(priority);
    setOpenDialog(dialog);
  }

  function turn(id: string) {
    setTurned((before) => new Set(before.has(id) ? [...before].filter((other) => other !== id) : [...before, id]));
  }

  const addButton = (
    <Button onClick={() => setOpenDialog("create")}>
      <PlusIcon aria-hidden />
      Add Priority
    </Button>
  );

  return (
    <section aria-label="Priorities">
      <div className="mb-4 flex min-h-10 flex-wrap items-center justify-between gap-x-4 gap-y-2">
        <h2 className="text-heading">
          Priorities{" "}
          {priorities.data && (
            <span className="font-normal text-muted-foreground tabular-nums">({priorities.data.length})</span>
          )}
        </h2>
        {editable && (
          <div className="flex flex-wrap gap-2 print:hidden">
            {actions}
            {priorities.data && priorities.data.length > 0 && addButton}
          </div>
        )}
      </div>
      {priorities.isPending ? (
        <div role="status" className="grid gap-4">
          <span className="sr-only">Loading priorities...</span>
          {["first", "second", "third"].map((card) => (
            <Card key={card} className="grid gap-3 p-4">
              <Skeleton className="h-5 w-2/5" />
              <Skeleton className="h-4 w-4/5" />
              <Skeleton className="h-4" />
              <Skeleton className="h-9" />
            </Card>
          ))}
        </div>
      ) : !priorities.data ? (
        <Card>
          <ErrorState
            title="The priorities could not be loaded"
            heading="h3"
            description={messageOf(priorities.error)}
            retrying={priorities.isFetching}
            onRetry={() => void priorities.refetch()}
          />
        </Card>
      ) : priorities.data.length === 0 ? (
        <Card className="border-dashed bg-surface shadow-none">
          <PageState
            art={<ColumnsChart columns={firstPriorities} className="h-24" />}
            heading="h3"
            title="No priorities yet."
            description={
              editable
                ? "Create your first priority to get started."
                : "The plan's owners and managers have not added any."
            }
          >
            {editable && addButton}
          </PageState>
        </Card>
      ) : (
        <ul className="grid gap-4">
          {priorities.data.map((priority) => (
            // What is far from the screen is neither laid out nor painted. An open menu reaches beyond its card.
            <li
              key={priority.id}
              className="[contain-intrinsic-size:auto_16rem] [overflow-clip-margin:0.5rem] not-has-data-[slot=dropdown-menu]:[content-visibility:auto]"
            >
              <PriorityCard
                priority={priority}
                done={doneOf(priority.id)}
                editable={editable}
                open={startOpen !== turned.has(priority.id)}
                onOpenChange={() => turn(priority.id)}
                onEdit={() => show("edit", priority)}
                onRename={(title, seen) => rename({ id: priority.id, title, seen })}
                onDelete={() => show("delete", priority)}
              >
                {renderTasks(priority)}
              </PriorityCard>
            </li>
          ))}
        </ul>
      )}
      {editable && (
        <>
          <PriorityDialog open={openDialog === "create"} onOpenChange={closeUnless} planId={planId} priority={null} />
          {current && (
            <PriorityDialog
              open={openDialog === "edit"}
              onOpenChange={closeUnless}
              planId={planId}
              priority={current}
            />
          )}
          {current && (
            <ConfirmDialog
              open={openDialog === "delete"}
              onOpenChange={closeUnless}
              title="Delete Priority"
              description={`Are you sure you want to delete “${current.title}”? All its tasks will also be deleted. This action cannot be undone.`}
              confirmLabel="Delete Priority"
              busyLabel="Deleting..."
              onConfirm={() => deletePriority.mutateAsync(current.id)}
            />
          )}
        </>
      )}
    </section>
  );
}
