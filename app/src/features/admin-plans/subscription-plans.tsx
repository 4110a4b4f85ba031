import { useQuery } from "@tanstack/react-query";
import { PencilIcon, PlusIcon, TagIcon, Trash2Icon } from "lucide-react";
import { useState } from "react";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { fetchAhead, lazyDialog } from "@/components/lazy-part";
import { PageHeading } from "@/components/page-heading";
import { PageState } from "@/components/page-state";
import { Alert } from "@/components/ui/alert";
import { Badge } from "@/components/ui/badge";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { type Column, DataTable } from "@/components/ui/data-table";
import { Skeleton } from "@/components/ui/skeleton";
import { formatUsd } from "@/lib/usd";
import { adminPlansQuery, type SubscriptionPlan, useDeletePlan } from "./queries";

// Forms and their rules, needed only when one is opened.
const dialogs = () => import("./plan-dialogs");
const AddPlanDialog = lazyDialog(() => dialogs().then(({ AddPlanDialog }) => AddPlanDialog));
const EditPlanDialog = lazyDialog(() => dialogs().then(({ EditPlanDialog }) => EditPlanDialog));

type OpenDialog = "add" | "edit" | "delete" | null;

export function SubscriptionPlans() {
  const plans = useQuery(adminPlansQuery());
  const deletePlan = useDeletePlan();
  const [openDialog, setOpenDialog] = useState<OpenDialog>(null);
  // Outlives its dialog, which still shows it while it fades.
  const [subject, setSubject] = useState<SubscriptionPlan | null>(null);
  // As it is now, where another person has changed it.
  const current = plans.data?.find(({ id }) => id === subject?.id) ?? subject;

  const show = (dialog: OpenDialog, plan: SubscriptionPlan) => {
    setSubject(plan);
    setOpenDialog(dialog);
  };
  const closeUnless = (open: boolean) => open || setOpenDialog(null);

  const columns: Column<SubscriptionPlan>[] = [
    { key: "name", header: "Name", isRowHeader: true, cell: ({ name }) => name },
    {
      key: "price",
      header: "Price",
      cell: ({ price }) => <span className="whitespace-nowrap tabular-nums">{formatUsd(Number(price))}</span>,
    },
    { key: "interval", header: "Interval", cell: ({ interval }) => <span className="capitalize">{interval}</span> },
    {
      key: "stripe",
      header: "Stripe Price ID",
      cell: (plan) => <span className="font-mono text-xs">{plan.stripe_price_id}</span>,
    },
    {
      key: "status",
      header: "Status",
      cell: ({ active }) => <Badge tone={active ? "success" : "neutral"}>{active ? "Active" : "Inactive"}</Badge>,
    },
    {
      key: "actions",
      header: "Actions",
      unlabelled: true,
      align: "end",
      className: "md:w-52",
      cell: (plan) => (
        <span className="flex gap-2 max-md:pt-2 md:justify-end">
          <Button variant="secondary" size="small" onClick={() => show("edit", plan)}>
            <PencilIcon aria-hidden />
            Edit<span className="sr-only"> {plan.name}</span>
          </Button>
          <Button variant="danger" size="small" onClick={() => show("delete", plan)}>
            <Trash2Icon aria-hidden />
            Delete<span className="sr-only"> {plan.name}</span>
          </Button>
        </span>
      ),
    },
  ];

  return (
    <>
      <PageHeading
        title="Subscription Plans Management"
        subtitle="Create, edit, and manage subscription plans for your application."
      />
      <Card>
        <div className="flex flex-wrap items-center justify-between gap-3 border-b px-4 py-4">
          <h2 className="text-heading">Subscription Plans</h2>
          <Button
            onClick={() => setOpenDialog("add")}
            onPointerEnter={() => fetchAhead(dialogs)}
            onFocus={() => fetchAhead(dialogs)}
          >
            <PlusIcon aria-hidden />
            Add Plan
          </Button>
        </div>
        {plans.isPending ? (
          <div role="status" className="grid gap-3 p-4">
            <span className="sr-only">Loading subscription plans...</span>
            {["first", "second", "third"].map((row) => (
              <Skeleton key={row} className="h-10" />
            ))}
          </div>
        ) : !plans.data ? (
          <div className="p-4">
            <Alert
              role="alert"
              tone="destructive"
              action={
                <Button
                  variant="secondary"
                  size="small"
                  disabled={plans.isFetching}
                  onClick={() => void plans.refetch()}
                >
                  Try again
                </Button>
              }
            >
              <p>Failed to load subscription plans. Please try again later.</p>
            </Alert>
          </div>
        ) : plans.data.length === 0 ? (
          <PageState
            heading="h3"
            size="small"
            art={<TagIcon className="size-8 text-muted-foreground" aria-hidden />}
            title="No subscription plans found"
            description="People can subscribe once there is a plan for sale."
          />
        ) : (
          <DataTable caption="Subscription plans" columns={columns} rows={plans.data} rowKey={({ id }) => id} />
        )}
      </Card>

      <AddPlanDialog open={openDialog === "add"} onOpenChange={closeUnless} />
      {current && <EditPlanDialog open={openDialog === "edit"} onOpenChange={closeUnless} plan={current} />}
      {current && (
        <ConfirmDialog
          open={openDialog === "delete"}
          onOpenChange={closeUnless}
          title="Delete Subscription Plan"
          description="Are you sure you want to delete this subscription plan? This action cannot be undone."
          confirmLabel="Delete Plan"
          busyLabel="Deleting..."
          onConfirm={() => deletePlan.mutateAsync(current.id)}
        >
          <p className="font-medium text-sm [overflow-wrap:anywhere]">{current.name}</p>
          <Alert tone="warning">
            <p>Deleting a plan might affect users who are currently subscribed to it.</p>
          </Alert>
        </ConfirmDialog>
      )}
    </>
  );
}
