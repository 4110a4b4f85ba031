import type { QueryClient } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { lazyPart } from "@/components/lazy-part";
import { LiveNote } from "@/components/live-note";
import { Skeleton } from "@/components/ui/skeleton";
import { fileCountsQuery, priorityCountsQuery, taskCountsQuery } from "@/features/plans/metrics";
import { PlanList } from "@/features/plans/plan-list";
import { planListQuery, planRolesQuery } from "@/features/plans/queries";
import { basalt } from "@/lib/basalt";
import { canEdit } from "@/lib/plan-role";
import { useUser } from "../guards";
import { useCheckoutSuccess } from "../use-checkout-success";
import { useTimeZoneNote } from "../use-time-zone-note";

// Fetched when the first plan is unfolded.
const PlanPriorities = lazyPart(
  () => import("../plan-priorities").then(({ PlanPriorities }) => PlanPriorities),
  <Skeleton className="h-32 rounded-xl" />,
);

const TaskOverview = lazyPart(
  () => import("@/features/task-overview/task-overview").then(({ TaskOverview }) => TaskOverview),
  <Skeleton className="h-96 rounded-xl" />,
);

/** Sets the queries going while the screen is being put up; the screen itself shows how far they are. */
export const loader = (queryClient: QueryClient) => async () => {
  const { data } = await basalt.auth.getSession();
  if (data.session) {
    void queryClient.prefetchQuery(planListQuery());
    void queryClient.prefetchQuery(planRolesQuery(data.session.user.id));
    void queryClient.prefetchQuery(taskCountsQuery());
    void queryClient.prefetchQuery(priorityCountsQuery());
    void queryClient.prefetchQuery(fileCountsQuery());
  }
  return null;
};

export function Component() {
  const user = useUser();
  useCheckoutSuccess(user.id);
  useTimeZoneNote(user.id);
  // The figures above the plans lead here.
  const tasks = useSearchParams()[0].get("tasks");
  if (tasks !== null) {
    return (
      <div className="mx-auto max-w-4xl px-4 py-6 sm:px-6 sm:py-10">
        <TaskOverview wanted={tasks} userId={user.id} />
        <LiveNote />
      </div>
    );
  }
  return (
    <div className="mx-auto max-w-6xl px-4 py-6 sm:px-6 sm:py-10">
      <PlanList
        userId={user.id}
        renderPriorities={(plan, role) => (
          <PlanPriorities planId={plan.id} editable={canEdit(role)} startOpen={false} withoutTasks="No tasks found" />
        )}
      />
      <LiveNote />
    </div>
  );
}
