import { useQuery } from "@tanstack/react-query";
import { PlusIcon } from "lucide-react";
import { type ReactNode, useEffect, useMemo, useState } from "react";
import { Link, useNavigate } from "react-router";
import { ColumnsChart } from "@/components/columns-chart";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { fetchAhead, lazyDialog, lazyExtra } from "@/components/lazy-part";
import { PageHeading } from "@/components/page-heading";
import { ErrorState, PageState } from "@/components/page-state";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { Skeleton } from "@/components/ui/skeleton";
import { useTableInvalidation } from "@/hooks/use-table-invalidation";
import { today } from "@/lib/dates";
import { messageOf } from "@/lib/errors";
import { find } from "@/lib/find";
import { fileCountsQuery, metricsByPlan, noMetrics, priorityCountsQuery, summarise, taskCountsQuery } from "./metrics";
import { useArchivePlan, useDeletePlan, useDuplicatePlan } from "./mutations";
import { PlanCard } from "./plan-card";
import { arrange, type PlanOrder, plansForFinder } from "./plan-order";
import { PlanSummary } from "./plan-summary";
import { type Plan, type PlanRole, planKeys, planLimitQuery, planListQuery, planRolesQuery } from "./queries";

// Forms and their rules are half of this screen's weight, and needed only when one is opened.
const dialogs = () => import("./plan-dialog");
const PlanFinder = lazyExtra(() => import("./plan-finder").then(({ PlanFinder }) => PlanFinder));
const CreatePlanDialog = lazyDialog(() => dialogs().then(({ CreatePlanDialog }) => CreatePlanDialog));
const DeletedPlans = lazyExtra(() => import("./deleted-plans").then(({ DeletedPlans }) => DeletedPlans));
const EditPlanDialog = lazyDialog(() => dialogs().then(({ EditPlanDialog }) => EditPlanDialog));

interface PlanListProps {
  userId: string;
  /** Draws a plan's priorities with their tasks. */
  renderPriorities: (plan: Plan, role: PlanRole) => ReactNode;
}

type OpenDialog = "create" | "edit" | "delete" | null;

export function PlanList({ userId, renderPriorities }: PlanListProps) {
  const plans = useQuery(planListQuery());
  const roles = useQuery(planRolesQuery(userId));
  const tasks = useQuery(taskCountsQuery());
  const priorities = useQuery(priorityCountsQuery());
  const files = useQuery(fileCountsQuery());
  const deletePlan = useDeletePlan();
  const { mutate: archive } = useArchivePlan();
  const { mutate: duplicate } = useDuplicatePlan();
  const navigate = useNavigate();
  const open = (planId: string) => void navigate(`/plan/${planId}`);
  // Left for only once the form has closed: until then it guards what was typed.
  const [createdId, setCreatedId] = useState<string | null>(null);
  const [wanted, setWanted] = useState("");
  const [order, setOrder] = useState<PlanOrder>("newest");
  const [showsArchived, setShowsArchived] = useState(false);
  const [openDialog, setOpenDialog] = useState<OpenDialog>(null);
  // Outlives its dialog, which still shows it while it fades, and a deletion by someone else.
  const [subject, setSubject] = useState<Plan | null>(null);

  useTableInvalidation([
    { table: "plans", queryKey: planKeys.all, filter: `user_id=eq.${userId}` },
    { table: "priorities", queryKey: ["priorities"] },
    { table: "tasks", queryKey: ["tasks"] },
    { table: "plan_attachments", queryKey: ["plan_attachments"] },
  ]);

  // Counts that could not be fetched are not worth a place of their own: the cards show none.
  const counted = !tasks.isPending && !priorities.isPending && !files.isPending;
  const metrics = useMemo(
    () => (counted ? metricsByPlan(tasks.data ?? [], priorities.data ?? [], files.data ?? []) : null),
    [counted, tasks.data, priorities.data, files.data],
  );
  // What was put aside is neither overdue nor due.
  const summary = useMemo(() => {
    if (!tasks.data) return null;
    const archived = new Set((plans.data ?? []).filter((plan) => plan.archived_at).map(({ id }) => id));
    const current = tasks.data.filter(({ plan_id }) => !archived.has(plan_id));
    return summarise(current, userId, today(), Date.now());
  }, [tasks.data, plans.data, userId]);

  useEffect(() => {
    if (createdId && openDialog === null) void navigate(`/plan/${createdId}`);
  }, [createdId, openDialog, navigate]);

  const show = (dialog: OpenDialog, plan: Plan | null = null) => {
    if (plan) setSubject(plan);
    setOpenDialog(dialog);
  };
  const closeUnless = (open: boolean) => open || setOpenDialog(null);
  // The maker of a plan owns it, also before the roles have arrived.
  const roleIn = (plan: Plan): PlanRole => roles.data?.get(plan.id) ?? (plan.user_id === userId ? "owner" : "viewer");

  const archivedCount = plans.data?.filter((plan) => plan.archived_at).length ?? 0;
  const hasFinder = (plans.data?.length ?? 0) >= plansForFinder;
  const shown = arrange(plans.data ?? [], {
    wanted: hasFinder ? wanted : "",
    order: hasFinder ? order : "newest",
    archived: showsArchived && archivedCount > 0,
    percentOf: (id) => metrics?.get(id)?.percent ?? 0,
  });

  const limit = useQuery(planLimitQuery()).data ?? null;
  const isFull = limit !== null && limit.used >= limit.of;
  const createButton = isFull ? (
    <Button asChild>
      <Link to="/dashboard/subscription">Upgrade for more plans</Link>
    </Button>
  ) : (
    <Button
      onClick={() => show("create")}
      onPointerEnter={() => fetchAhead(dialogs)}
      onFocus={() => fetchAhead(dialogs)}
    >
      <PlusIcon aria-hidden />
      Create Plan
    </Button>
  );

  return (
    <>
      <PageHeading title="Strategic Plans" subtitle="Manage your strategic plans and priorities">
        <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
          {limit && (
            <p className="text-muted-foreground text-sm" title={`Included in your subscription: ${limit.name}`}>
              {limit.used} of {limit.of === 1 ? "1 plan" : `${limit.of} plans`}
            </p>
          )}
          {plans.data && plans.data.length > 0 && (
            <>
              <Button variant="ghost" title="Plans, priorities, tasks, people and pages (Ctrl+K)" onClick={find}>
                Find...
              </Button>
              {createButton}
            </>
          )}
        </div>
      </PageHeading>

      {plans.isPending ? (
        <PlanListSkeleton />
      ) : !plans.data ? (
        <Card>
          <ErrorState
            title="Your plans could not be loaded"
            description={messageOf(plans.error)}
            retrying={plans.isFetching}
            onRetry={() => void plans.refetch()}
          />
        </Card>
      ) : plans.data.length === 0 ? (
        <Card className="border-dashed bg-surface shadow-none">
          <PageState
            art={<ColumnsChart columns={firstSteps} className="h-32" />}
            title="No Strategic Plans Yet"
            description="Create your first strategic plan to get started"
          >
            {createButton}
          </PageState>
        </Card>
      ) : (
        <>
          {/* Its place is held while it is on its way, and given up where there is nothing to sum up. */}
          {tasks.isPending ? (
            <Skeleton className="mb-6 h-[5.75rem] rounded-xl max-sm:h-[17.25rem] sm:max-lg:h-[11.5rem]" />
          ) : (
            summary && summary.done.total > 0 && <PlanSummary summary={summary} />
          )}
          {(hasFinder || archivedCount > 0) && (
            <PlanFinder
              full={hasFinder}
              wanted={wanted}
              onWantedChange={setWanted}
              order={order}
              onOrderChange={setOrder}
              archivedCount={archivedCount}
              showsArchived={showsArchived}
              onShowsArchivedChange={setShowsArchived}
              found={shown.length}
            />
          )}
          <ul aria-label="Plans" className="grid gap-4">
            {shown.map((plan) => (
              <li key={plan.id}>
                <PlanCard
                  plan={plan}
                  role={roleIn(plan)}
                  metrics={metrics && (metrics.get(plan.id) ?? noMetrics)}
                  onEdit={() => show("edit", plan)}
                  onDelete={() => show("delete", plan)}
                  onArchive={() => archive({ id: plan.id, archived: !plan.archived_at })}
                  onDuplicate={isFull ? null : () => duplicate(plan.id, { onSuccess: open })}
                  renderPriorities={() => renderPriorities(plan, roleIn(plan))}
                />
              </li>
            ))}
          </ul>
        </>
      )}

      {plans.data && <DeletedPlans />}
      <CreatePlanDialog
        open={openDialog === "create"}
        onOpenChange={closeUnless}
        userId={userId}
        onCreated={setCreatedId}
      />
      {subject && (
        <EditPlanDialog key={subject.id} open={openDialog === "edit"} onOpenChange={closeUnless} plan={subject} />
      )}
      {subject && (
        <ConfirmDialog
          open={openDialog === "delete"}
          onOpenChange={closeUnless}
          title="Delete Plan"
          description={`Are you sure you want to delete “${subject.title}”? All its priorities and tasks will also be deleted. You can restore it for 30 days.`}
          confirmLabel="Delete Plan"
          busyLabel="Deleting..."
          onConfirm={() => deletePlan.mutateAsync(subject.id)}
        />
      )}
    </>
  );
}

// A field before anything has grown: one column begun, the others still goals.
const firstSteps = [
  { key: "first", percent: 18 },
  { key: "second", percent: 0 },
  { key: "third", percent: 0 },
];

function PlanListSkeleton() {
  return (
    <div role="status" className="grid gap-4">
      <span className="sr-only">Loading plans...</span>
      {["first", "second", "third"].map((card) => (
        <Card key={card}>
          <div className="grid gap-x-8 gap-y-4 p-4 sm:p-5 md:grid-cols-[minmax(0,1fr)_15rem]">
            <div className="grid content-start gap-3">
              <Skeleton className="h-6 w-3/5" />
              <Skeleton className="h-4 w-36" />
              <Skeleton className="h-4 w-5/6" />
              <Skeleton className="mt-3 h-4 w-48" />
            </div>
            <div className="grid content-end gap-3">
              <Skeleton className="mx-auto h-20 w-40 max-md:hidden" />
              <Skeleton className="h-5" />
              <Skeleton className="h-1.5" />
            </div>
          </div>
          <div className="border-t px-4 py-3">
            <Skeleton className="h-5 w-28" />
          </div>
        </Card>
      ))}
    </div>
  );
}
