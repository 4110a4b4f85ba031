import { useQuery } from "@tanstack/react-query";
import { PlusIcon } from "lucide-react";
import { useState } from "react";
import { ColumnsArt } from "@/components/columns-art";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { PageHeading } from "@/components/page-heading";
import { ErrorState, PageState } from "@/components/page-state";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { Skeleton } from "@/components/ui/skeleton";
import { messageOf } from "@/lib/errors";
import { useDeletePlan } from "./mutations";
import { PlanCard } from "./plan-card";
import { CreatePlanDialog, EditPlanDialog } from "./plan-dialog";
import { type Plan, type PlanRole, planListQuery, planRolesQuery } from "./queries";

type OpenDialog = "create" | "edit" | "delete" | null;

export function PlanList({ userId }: { userId: string }) {
  const plans = useQuery(planListQuery());
  const roles = useQuery(planRolesQuery(userId));
  const deletePlan = useDeletePlan();
  const [openDialog, setOpenDialog] = useState<OpenDialog>(null);
  // Outlives its dialog, which still shows it while it fades.
  const [subject, setSubject] = useState<Plan | null>(null);

  const show = (dialog: OpenDialog, plan: Plan | null = null) => {
    if (plan) setSubject(plan);
    setOpenDialog(dialog);
  };
  const closeUnless = (open: boolean) => open || setOpenDialog(null);
  // The maker of a plan owns it, also before the roles have arrived.
  const roleIn = (plan: Plan): PlanRole => roles.data?.get(plan.id) ?? (plan.user_id === userId ? "owner" : "viewer");

  return (
    <>
      <PageHeading title="Strategic Plans" subtitle="Manage your strategic plans and priorities">
        {plans.data && plans.data.length > 0 && (
          <Button onClick={() => show("create")}>
            <PlusIcon aria-hidden />
            Create Plan
          </Button>
        )}
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
            art={<ColumnsArt className="h-36" />}
            title="No Strategic Plans Yet"
            description="Create your first strategic plan to get started"
          >
            <Button onClick={() => show("create")}>
              <PlusIcon aria-hidden />
              Create Plan
            </Button>
          </PageState>
        </Card>
      ) : (
        <ul aria-label="Plans" className="grid gap-5 md:grid-cols-2 xl:grid-cols-3">
          {plans.data.map((plan) => (
            <li key={plan.id}>
              <PlanCard
                plan={plan}
                role={roleIn(plan)}
                onEdit={() => show("edit", plan)}
                onDelete={() => show("delete", plan)}
              />
            </li>
          ))}
        </ul>
      )}

      <CreatePlanDialog open={openDialog === "create"} onOpenChange={closeUnless} userId={userId} />
      {subject && (
        <>
          <EditPlanDialog open={openDialog === "edit"} onOpenChange={closeUnless} plan={subject} />
          <ConfirmDialog
            open={openDialog === "delete"}
            onOpenChange={closeUnless}
            title="Delete Plan"
            description={`Are you sure you want to delete “${subject.title}”? All its priorities and tasks will also be deleted. This action cannot be undone.`}
            confirmLabel="Delete Plan"
            busyLabel="Deleting..."
            onConfirm={() => deletePlan.mutateAsync(subject.id)}
          />
        </>
      )}
    </>
  );
}

function PlanListSkeleton() {
  return (
    <div role="status" className="grid gap-5 md:grid-cols-2 xl:grid-cols-3">
      <span className="sr-only">Loading plans...</span>
      {["first", "second", "third"].map((card) => (
        <Card key={card} className="grid gap-4 p-5 sm:p-6">
          <Skeleton className="h-6 w-3/5" />
          <Skeleton className="h-4 w-2/5" />
          <div className="grid gap-2 py-2">
            <Skeleton className="h-4" />
            <Skeleton className="h-4 w-5/6" />
          </div>
          <Skeleton className="h-4 w-1/2" />
        </Card>
      ))}
    </div>
  );
}
