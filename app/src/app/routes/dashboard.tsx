import type { QueryClient } from "@tanstack/react-query";
import { PlanList } from "@/features/plans/plan-list";
import { planListQuery, planRolesQuery } from "@/features/plans/queries";
import { basalt } from "@/lib/basalt";
import { useUser } from "../guards";

/** Sets the queries going while the screen is being put up; the screen itself shows how far they are. */
export const loader = (queryClient: QueryClient) => async () => {
  const { data } = await basalt.auth.getSession();
  if (data.session) {
    void queryClient.prefetchQuery(planListQuery());
    void queryClient.prefetchQuery(planRolesQuery(data.session.user.id));
  }
  return null;
};

export function Component() {
  const user = useUser();
  return (
    <div className="mx-auto max-w-6xl px-4 py-8 sm:px-6 sm:py-12">
      <PlanList userId={user.id} />
    </div>
  );
}
