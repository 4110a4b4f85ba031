import { type QueryClient, useQuery } from "@tanstack/react-query";
import { ArrowDownUpIcon, CalendarDaysIcon, FileUpIcon, ListIcon } from "lucide-react";
import { type ComponentProps, useEffect, useMemo, useRef, useState } from "react";
import { Link, type LoaderFunctionArgs, useNavigate, useParams, useSearchParams } from "react-router";
import { ColumnsChart } from "@/components/columns-chart";
import { type Gone, GoneContext } from "@/components/gone-note";
import { lazyDialog, lazyExtra, lazyPart } from "@/components/lazy-part";
import { LiveNote } from "@/components/live-note";
import { PageState } from "@/components/page-state";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { Skeleton } from "@/components/ui/skeleton";
import { Tabs, TabsContent, TabsList, TabsTrigger } from "@/components/ui/tabs";
import { attachmentKeys } from "@/features/attachments/queries";
import { commentKeys } from "@/features/comments/queries";
import { PresentPeople } from "@/features/members/present-people";
import { usePlanRoom } from "@/features/members/room";
import { OrganizationCard } from "@/features/organization/organization-card";
import { organizationKeys, organizationQuery } from "@/features/organization/queries";
import { PlanBar } from "@/features/plans/plan-bar";
import { PlanHeader } from "@/features/plans/plan-header";
import { planFateQuery, planKeys, planQuery, planRoleQuery } from "@/features/plans/queries";
import { priorityKeys, priorityListQuery } from "@/features/priorities/queries";
import { type Task, taskKeys, taskListQuery } from "@/features/tasks/queries";
import { useDocumentTitle } from "@/hooks/use-document-title";
import { useGroups } from "@/hooks/use-groups";
import { useHeld } from "@/hooks/use-held";
import { useScrolledPast } from "@/hooks/use-scrolled-past";
import { basalt } from "@/lib/basalt";
import { chartColumns } from "@/lib/chart-columns";
import { canEdit } from "@/lib/plan-role";
import { countDone, percentOf } from "@/lib/progress";
import { toast } from "@/lib/toast";
import { useUser } from "../guards";
import { PlanDiscussion } from "../plan-discussion";
import { PlanPriorities } from "../plan-priorities";

/** More tasks than this are folded away at first. */
const manyTasks = 150;

const siteHeaderPx = 64;

const teamPollMs = 60_000;

const noTasks: Task[] = [];

const isPlanId = (id = "") => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id);

/** Sets the queries going while the screen is being put up; the screen itself shows how far they are. */
export const loader =
  (queryClient: QueryClient) =>
  async ({ params }: LoaderFunctionArgs) => {
    const planId = params.planId;
    const { data } = await basalt.auth.getSession();
    if (data.session && planId && isPlanId(planId)) {
      void queryClient.prefetchQuery(planQuery(planId));
      void queryClient.prefetchQuery(planRoleQuery(planId, data.session.user.id));
      void queryClient.prefetchQuery(organizationQuery(planId));
      void queryClient.prefetchQuery(priorityListQuery(planId));
      void queryClient.prefetchQuery(taskListQuery(planId));
    }
    return null;
  };

export function Component() {
  const { planId = "" } = useParams();
  return isPlanId(planId) ? <PlanPage key={planId} planId={planId} /> : <PlanNotFound />;
}

const views = [
  { name: "list", label: "List", Icon: ListIcon },
  { name: "timeline", label: "Timeline", Icon: CalendarDaysIcon },
] as const;

// The other tabs.
const waiting = <Skeleton className="h-96" />;
const Resources = lazyPart(
  () => import("@/features/attachments/resources").then(({ Resources }) => Resources),
  waiting,
);
const Team = lazyPart(() => import("@/features/members/team").then(({ Team }) => Team), waiting);
const Timeline = lazyPart(() => import("@/features/tasks/timeline").then(({ Timeline }) => Timeline), waiting);
const TaskDialog = lazyDialog(() => import("@/features/tasks/task-dialog").then(({ TaskDialog }) => TaskDialog));
const ShowItem = lazyExtra(() => import("../show-item").then(({ ShowItem }) => ShowItem));
const ActivityDialog = lazyDialog(() =>
  import("@/features/activity/activity-dialog").then(({ ActivityDialog }) => ActivityDialog),
);
const DeletedItemsDialog = lazyDialog(() =>
  import("@/features/deleted-items/deleted-items-dialog").then(({ DeletedItemsDialog }) => DeletedItemsDialog),
);
const ImportDialog = lazyDialog(() =>
  import("@/features/priorities/import-dialog").then(({ ImportDialog }) => ImportDialog),
);

const tabs = ["priorities", "team", "resources"] as const;

function PlanPage({ planId }: { planId: string }) {
  const user = useUser();
  const navigate = useNavigate();
  const [search, setSearch] = useSearchParams();
  // A removed member gets no message on the plan's channel, so the membership is polled.
  const plan = useQuery({ ...planQuery(planId), refetchInterval: teamPollMs });
  const roleLookup = useQuery({
    ...planRoleQuery(planId, user.id),
    enabled: plan.data != null,
    refetchInterval: teamPollMs,
  });
  const ofPlan = `plan_id=eq.${planId}`;
  const present = usePlanRoom(planId, user.id, plan.data != null, [
    { table: "plans", queryKey: planKeys.all, filter: `id=eq.${planId}` },
    { table: "priorities", queryKey: priorityKeys.list(planId), filter: ofPlan },
    { table: "tasks", queryKey: taskKeys.list(planId), filter: ofPlan },
    { table: "organizations", queryKey: organizationKeys.detail(planId), filter: ofPlan },
    { table: "plan_attachments", queryKey: attachmentKeys.list(planId), filter: ofPlan },
    { table: "task_comments", queryKey: commentKeys.ofPlan(planId), filter: ofPlan },
  ]);
  const priorities = useQuery(priorityListQuery(planId));
  const tasks = useQuery(taskListQuery(planId));

  // Decided once: one task more must not fold away what people are looking at.
  const [startOpen, setStartOpen] = useState<boolean | null>(null);
  if (startOpen === null && !tasks.isPending) setStartOpen((tasks.data?.length ?? 0) <= manyTasks);
  const [importing, setImporting] = useState(false);
  const [activity, setActivity] = useState(false);
  const [deletedItems, setDeletedItems] = useState(false);

  const byPriority = useGroups(tasks.data ?? noTasks, (task) => task.priority_id);
  const columns = useMemo(
    () =>
      tasks.data && priorities.data
        ? chartColumns(
            [...priorities.data].reverse().map(({ id, title }) => ({
              key: id,
              title,
              percent: percentOf(countDone(byPriority.get(id) ?? [])),
            })),
          )
        : null,
    [priorities.data, tasks.data, byPriority],
  );

  // The toast that says why is the query's own.
  const failed = plan.isError && plan.data === undefined;
  useEffect(() => {
    if (failed) void navigate("/dashboard", { replace: true });
  }, [failed, navigate]);

  const [gone, wasHere] = usePlanGone(planId, plan.data);
  const wantedId = search.get("task");
  const opened = useOpenedTask(tasks.data, wantedId);

  if (plan.data === null && gone) return <PlanGone {...gone} />;
  if (plan.data === null && !wasHere) return <PlanNotFound />;
  if (!plan.data) return <PlanSkeleton />;

  const shown = plan.data;
  const role = roleLookup.data ?? null;
  const editable = canEdit(role);
  // A viewer has no dialog for a task: it is shown in its place, as a priority is to everyone.
  const shownId = search.get("priority") ?? (role && !editable ? wantedId : null);
  const tasksOf = (priorityId: string) => byPriority.get(priorityId) ?? [];
  const view = search.get("view") === "timeline" ? "timeline" : "list";
  const tab = tabs.find((name) => name === search.get("tab")) ?? "priorities";
  const byDueDate = search.get("sort") === "due";
  const setParam = (name: string, value: string | null) =>
    setSearch(
      (before) => {
        const next = new URLSearchParams(before);
        if (value === null) next.delete(name);
        else next.set(name, value);
        return next;
      },
      { replace: true },
    );

  return (
    <GoneContext value={gone}>
      <div className="mx-auto max-w-6xl px-4 py-2 sm:px-6 sm:py-8">
        <Top
          plan={plan.data}
          role={role}
          done={countDone(tasks.data ?? [])}
          priorities={columns}
          onExport={() =>
            import("../plan-csv").then(
              ({ exportPlan }) => exportPlan(shown, priorities.data ?? [], tasksOf),
              () =>
                toast.error("The plan could not be exported", {
                  description: "Check your connection, then try again.",
                }),
            )
          }
          onActivity={() => setActivity(true)}
          onDeletedItems={() => setDeletedItems(true)}
          presence={<PresentPeople planId={planId} userId={user.id} present={present} />}
        />
        <div className="mt-3 md:mt-6">
          <OrganizationCard planId={planId} editable={editable} />
        </div>
        <Tabs
          value={tab}
          onValueChange={(next) => setSearch(next === "priorities" ? {} : { tab: next }, { replace: true })}
          className="mt-2 md:mt-8"
        >
          {/* On phones it stays in view, below the site's header and the plan's bar. */}
          <TabsList
            look="line"
            aria-label="Parts of the plan"
            className="mb-3 max-md:sticky max-md:top-[109px] max-md:z-20 max-md:bg-background md:mb-6"
          >
            <TabsTrigger value="priorities">Priorities</TabsTrigger>
            <TabsTrigger value="team">Team</TabsTrigger>
            <TabsTrigger value="resources">Resources</TabsTrigger>
          </TabsList>
          <TabsContent value="priorities" tabIndex={-1} className="outline-none">
            {/* On phones it stands beside the list's buttons. */}
            <fieldset
              aria-label="View"
              className="mb-3 inline-flex gap-1 rounded-lg bg-muted p-1 max-md:float-start max-md:p-0.5 max-md:me-2 md:mb-4 print:hidden"
            >
              {views.map(({ name, label, Icon }) => (
                <Button
                  key={name}
                  variant="ghost"
                  size="small"
                  aria-pressed={view === name}
                  className="aria-pressed:bg-surface-raised aria-pressed:shadow-xs"
                  onClick={() => setParam("view", name === "list" ? null : name)}
                >
                  <Icon aria-hidden />
                  <span className="max-sm:sr-only">{label}</span>
                </Button>
              ))}
              {view === "list" && (
                <Button
                  variant="ghost"
                  size="small"
                  aria-pressed={byDueDate}
                  title="Overdue tasks first, then what is due next, those without a date last"
                  className="aria-pressed:bg-surface-raised aria-pressed:shadow-xs"
                  onClick={() => setParam("sort", byDueDate ? null : "due")}
                >
                  <ArrowDownUpIcon aria-hidden />
                  <span className="max-sm:sr-only">By due date</span>
                </Button>
              )}
            </fieldset>
            {view === "timeline" ? (
              <section aria-label="Timeline" className="clear-both">
                <Timeline
                  planId={planId}
                  tasks={tasks.data ?? []}
                  onOpen={editable ? (task) => setParam("task", task.id) : null}
                />
              </section>
            ) : (
              <PlanDiscussion planId={planId} userId={user.id} role={role}>
                <PlanPriorities
                  planId={planId}
                  editable={editable}
                  withoutTasks="No tasks available"
                  startOpen={startOpen ?? true}
                  byDueDate={byDueDate}
                  actions={
                    <Button variant="secondary" onClick={() => setImporting(true)}>
                      <FileUpIcon aria-hidden />
                      <span className="max-sm:sr-only">Import CSV</span>
                    </Button>
                  }
                />
              </PlanDiscussion>
            )}
            {editable && <ImportDialog open={importing} onOpenChange={setImporting} planId={planId} />}
            {editable && opened.task && (
              <TaskDialog
                open={opened.open}
                onOpenChange={(open) => open || setParam("task", null)}
                planId={planId}
                priority={{ id: opened.task.priority_id, title: "" }}
                task={opened.task}
              />
            )}
            {shownId && priorities.data && tasks.data && (
              <ShowItem
                key={shownId}
                id={shownId}
                priorityId={tasks.data.find(({ id }) => id === shownId)?.priority_id ?? shownId}
              />
            )}
          </TabsContent>
          <TabsContent value="resources" tabIndex={-1} className="outline-none">
            <Resources planId={planId} editable={editable} />
          </TabsContent>
          <TabsContent value="team" tabIndex={-1} className="outline-none">
            <Team
              plan={plan.data}
              user={user}
              role={role}
              onLeft={() => void navigate("/dashboard", { replace: true })}
            />
          </TabsContent>
        </Tabs>
        <ActivityDialog open={activity} onOpenChange={setActivity} planId={planId} />
        {editable && (
          <DeletedItemsDialog
            open={deletedItems}
            onOpenChange={setDeletedItems}
            planId={planId}
            changedAt={Math.max(priorities.dataUpdatedAt, tasks.dataUpdatedAt)}
          />
        )}
        <LiveNote />
      </div>
    </GoneContext>
  );
}

/** The task of the address, `?task=`. It outlives the address for as long as its dialog takes to fade. */
function useOpenedTask(tasks: Task[] | undefined, id: string | null) {
  const [last, setLast] = useState<Task | null>(null);
  const found = id === null ? undefined : tasks?.find((task) => task.id === id);
  if (found && found !== last) setLast(found);
  return { task: found ?? last, open: found !== undefined };
}

const fates: Record<"deleted" | "removed" | "unknown", Gone> = {
  deleted: { title: "This plan was deleted", description: "An owner deleted it, with its priorities and tasks." },
  removed: { title: "You are no longer a member of this plan", description: "An owner removed you from its team." },
  unknown: {
    title: "This plan is no longer available",
    description: "It was deleted, or an owner removed you from its team.",
  },
};

/** What became of a plan that was on the screen. While something is unsaved, its query keeps the last version (`lib/held`). */
function usePlanGone(planId: string, plan: object | null | undefined): [Gone | null, boolean] {
  const isHeld = useHeld(planId);
  const [wasShown, setWasShown] = useState(false);
  if (plan && !wasShown) setWasShown(true);
  const isGone = wasShown && (plan === null || isHeld);
  const fate = useQuery({ ...planFateQuery(planId), enabled: isGone });
  return [isGone && !fate.isPending ? fates[fate.data ?? "unknown"] : null, wasShown];
}

function PlanGone({ title, description }: Gone) {
  useDocumentTitle(title);
  return (
    <PageState
      art={<ColumnsChart columns={nothingGrown} className="h-28" />}
      heading="h1"
      title={title}
      description={description}
      className="min-h-[calc(100dvh-8rem)] justify-center"
    >
      <Button asChild>
        <Link to="/dashboard">Back to your plans</Link>
      </Button>
    </PageState>
  );
}

/** The plan's header, and what stays of it when it is scrolled away. */
function Top(props: Omit<ComponentProps<typeof PlanHeader>, "ref">) {
  const header = useRef<HTMLElement>(null);
  const past = useScrolledPast(header, siteHeaderPx);
  const { plan, role, done, presence } = props;
  return (
    <>
      <PlanHeader ref={header} {...props} />
      {past && <PlanBar title={plan.title} role={role} done={done} presence={presence} />}
    </>
  );
}

const nothingGrown = ["one", "two", "three"].map((key) => ({ key, percent: 0 }));

function PlanNotFound() {
  useDocumentTitle("Plan not found");
  return (
    <PageState
      art={<ColumnsChart columns={nothingGrown} className="h-28" />}
      heading="h1"
      title="Plan not found"
      description="It may have been deleted, or you are not a member of it."
      className="min-h-[calc(100dvh-8rem)] justify-center"
    >
      <Button asChild>
        <Link to="/dashboard">Back to your plans</Link>
      </Button>
    </PageState>
  );
}

function PlanSkeleton() {
  return (
    <div role="status" className="mx-auto max-w-6xl px-4 py-6 sm:px-6 sm:py-8">
      <span className="sr-only">Loading the plan...</span>
      <div className="grid gap-6 lg:grid-cols-[minmax(0,1fr)_20rem] lg:gap-10">
        <div className="grid content-start gap-4">
          <Skeleton className="my-2 h-7 w-32" />
          <Skeleton className="h-10 w-3/5" />
          <Skeleton className="h-6 w-1/2" />
          <Skeleton className="h-5 w-2/5" />
          <Skeleton className="h-16 w-4/5" />
        </div>
        <Card className="h-66 bg-surface shadow-none" />
      </div>
      <Skeleton className="mt-8 mb-6 h-11" />
      <Skeleton className="h-48" />
    </div>
  );
}
