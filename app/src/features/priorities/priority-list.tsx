import { useQuery, useQueryClient } from "@tanstack/react-query";
import { PlusIcon } from "lucide-react";
import { memo, type ReactNode, useCallback, useMemo, useState } from "react";
import { ColumnsChart } from "@/components/columns-chart";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { lazyDialog } from "@/components/lazy-part";
import type { Step } from "@/components/move-items";
import { ErrorState, PageState } from "@/components/page-state";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { Skeleton } from "@/components/ui/skeleton";
import { useDragOrder } from "@/hooks/use-drag-order";
import { useMove } from "@/hooks/use-move";
import { useNear } from "@/hooks/use-near";
import { useRename } from "@/hooks/use-rename";
import { cn } from "@/lib/cn";
import { messageOf } from "@/lib/errors";
import { followerOf, type Side } from "@/lib/order";
import type { Done } from "@/lib/progress";
import { useDeletePriority } from "./mutations";
import { PriorityCard, PriorityCardOutline } from "./priority-card";
import { type Priority, priorityKeys, priorityListQuery } from "./queries";

const PriorityDialog = lazyDialog(() => import("./priority-dialog").then(({ PriorityDialog }) => PriorityDialog));

interface PriorityListProps {
  planId: string;
  editable: boolean;
  /** How far the tasks of a priority are. */
  doneOf: (priorityId: string) => Done;
  /** Draws the tasks of a priority. The same function each time, or all cards are rendered again. */
  renderTasks: (priority: Priority) => ReactNode;
  /** Whether the tasks are in view at first: not where there are very many. */
  startOpen: boolean;
  /** More actions beside Add Priority. */
  actions?: ReactNode;
}

// The goals stand; nothing has grown yet.
const firstPriorities = ["one", "two"].map((key) => ({ key, percent: 0 }));

type OpenDialog = "create" | "edit" | "delete" | null;

/** As many as the first screen may show. */
const nearAtFirst = 8;

export function PriorityList({ planId, editable, doneOf, renderTasks, startOpen, actions }: PriorityListProps) {
  const priorities = useQuery(priorityListQuery(planId));
  const queryClient = useQueryClient();
  const deletePriority = useDeletePriority(planId);
  const rename = useRename({ table: "priorities", thing: "priority", refetches: [priorityKeys.list(planId)] });
  const listKey = priorityKeys.list(planId);
  const move = useMove({ table: "priorities", thing: "priority", listKey });
  const [openDialog, setOpenDialog] = useState<OpenDialog>(null);
  const [subject, setSubject] = useState<Priority | null>(null);
  // Those that the person folded the other way than they were at first.
  const [turned, setTurned] = useState<ReadonlySet<string>>(new Set());
  const [moved, setMoved] = useState("");
  const current = subject && (priorities.data?.find(({ id }) => id === subject.id) ?? subject);
  const closeUnless = (open: boolean) => open || setOpenDialog(null);

  const place = useCallback(
    (id: string, targetId: string, side: Side) => {
      const items = queryClient.getQueryData<Priority[]>(priorityKeys.list(planId)) ?? [];
      const [item, target] = [id, targetId].map((wanted) => items.find((one) => one.id === wanted));
      if (!item || !target) return;
      move({ id, beforeId: followerOf(items, id, targetId, side) });
      setMoved(`“${item.title}” was moved ${side} “${target.title}”.`);
    },
    [queryClient, planId, move],
  );
  const drag = useDragOrder(place);

  const cardActions = useMemo<CardActions>(() => {
    const show = (dialog: OpenDialog) => (priority: Priority) => {
      setSubject(priority);
      setOpenDialog(dialog);
    };
    return {
      turn: (id) =>
        setTurned((before) => new Set(before.has(id) ? [...before].filter((other) => other !== id) : [...before, id])),
      step: (id, step) => {
        const items = queryClient.getQueryData<Priority[]>(priorityKeys.list(planId)) ?? [];
        const neighbour = items[items.findIndex((item) => item.id === id) + (step === "up" ? -1 : 1)];
        if (neighbour) place(id, neighbour.id, step === "up" ? "before" : "after");
      },
      edit: show("edit"),
      remove: show("delete"),
      rename: (id, title, seen) => rename({ id, title, seen }),
    };
  }, [queryClient, planId, place, rename]);

  const addButton = (
    <Button onClick={() => setOpenDialog("create")}>
      <PlusIcon aria-hidden />
      <span className="max-[359px]:sr-only">Add Priority</span>
    </Button>
  );

  return (
    <section aria-label="Priorities">
      <div className="mb-3 flex min-h-10 flex-wrap items-center justify-between gap-x-4 gap-y-2 max-md:justify-end md:mb-4">
        {/* On phones the tab says it. */}
        <h2 className="text-heading max-md:sr-only">
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
      <div className="clear-both" />
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
        <ul className="grid gap-4" {...(editable && drag)}>
          {priorities.data.map((priority, index, { length }) => (
            <PriorityItem
              key={priority.id}
              priority={priority}
              {...doneOf(priority.id)}
              nearAtFirst={index < nearAtFirst}
              editable={editable}
              first={index === 0}
              last={index === length - 1}
              open={startOpen !== turned.has(priority.id)}
              actions={cardActions}
              renderTasks={renderTasks}
            />
          ))}
        </ul>
      )}
      <p aria-live="polite" className="sr-only">
        {moved}
      </p>
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
              description={`Are you sure you want to delete “${current.title}”? All its tasks will also be deleted. You can restore it for 30 days.`}
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

interface CardActions {
  turn: (id: string) => void;
  step: (id: string, step: Step) => void;
  edit: (priority: Priority) => void;
  remove: (priority: Priority) => void;
  rename: (id: string, title: string, seen: string) => Promise<boolean>;
}

interface PriorityItemProps extends Done, Pick<PriorityListProps, "editable" | "renderTasks"> {
  priority: Priority;
  nearAtFirst: boolean;
  first: boolean;
  last: boolean;
  open: boolean;
  actions: CardActions;
}

// Where a dragged card would go, in the gap between two.
const dropLine =
  "after:absolute after:inset-x-0 after:hidden after:h-1 after:rounded-full after:bg-primary data-drop:after:block data-[drop=before]:after:-top-2.5 data-[drop=after]:after:-bottom-2.5";

/** Remembered, and an outline until it comes near the screen: a plan can have hundreds, and a change is that of one. */
const PriorityItem = memo(function PriorityItem({
  priority,
  completed,
  total,
  nearAtFirst,
  actions,
  renderTasks,
  ...props
}: PriorityItemProps) {
  const { place, near } = useNear(nearAtFirst);
  const { id } = priority;
  return (
    // What is far from the screen is neither laid out nor painted. An open menu reaches beyond its card.
    <li
      ref={place}
      data-row="priority"
      data-id={id}
      className={cn(
        "relative [contain-intrinsic-size:auto_16rem] [overflow-clip-margin:0.75rem] not-has-data-[slot=dropdown-menu]:[content-visibility:auto]",
        dropLine,
      )}
    >
      {near ? (
        <PriorityCard
          priority={priority}
          done={{ completed, total }}
          onOpenChange={() => actions.turn(id)}
          onMove={(step) => actions.step(id, step)}
          onEdit={() => actions.edit(priority)}
          onRename={(title, seen) => actions.rename(id, title, seen)}
          onDelete={() => actions.remove(priority)}
          {...props}
        >
          {renderTasks(priority)}
        </PriorityCard>
      ) : (
        <PriorityCardOutline title={priority.title} />
      )}
    </li>
  );
});
