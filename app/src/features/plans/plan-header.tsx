import {
  ArchiveRestoreIcon,
  ArrowLeftIcon,
  CalendarDaysIcon,
  DownloadIcon,
  FileTextIcon,
  HistoryIcon,
  PencilIcon,
  PrinterIcon,
  Trash2Icon,
} from "lucide-react";
import { type ReactNode, type Ref, useState } from "react";
import { Link, useNavigate } from "react-router";
import { ColumnsChart } from "@/components/columns-chart";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { InlineEdit } from "@/components/inline-edit";
import { lazyDialog } from "@/components/lazy-part";
import { RichText } from "@/components/rich-text";
import { Badge } from "@/components/ui/badge";
import { Button } from "@/components/ui/button";
import {
  DropdownMenu,
  DropdownMenuContent,
  DropdownMenuItem,
  DropdownMenuSeparator,
  MoreButton,
} from "@/components/ui/dropdown-menu";
import { Progress } from "@/components/ui/progress";
import { useDocumentTitle } from "@/hooks/use-document-title";
import { useRename } from "@/hooks/use-rename";
import { cn } from "@/lib/cn";
import { formatDay, formatInstant } from "@/lib/dates";
import { canEdit, type PlanRole } from "@/lib/plan-role";
import { type Done, percentOf } from "@/lib/progress";
import { titleFaultOf } from "@/lib/titles";
import { useDeletePlan } from "./mutations";
import { type Plan, planKeys } from "./queries";

const EditPlanDialog = lazyDialog(() => import("./plan-dialog").then(({ EditPlanDialog }) => EditPlanDialog));

interface PlanHeaderProps {
  plan: Plan;
  /** Null while it is being looked up. */
  role: PlanRole | null;
  done: Done;
  /** How far each priority is, the oldest first; null while that is being loaded. */
  priorities: { key: string; title: string; percent: number }[] | null;
  onExport: () => void;
  onActivity: () => void;
  onDeletedItems: () => void;
  /** Who is here. */
  presence?: ReactNode;
  ref?: Ref<HTMLElement>;
}

export function PlanHeader({
  plan,
  role,
  done,
  priorities,
  onExport,
  onActivity,
  onDeletedItems,
  presence,
  ref,
}: PlanHeaderProps) {
  useDocumentTitle(plan.title);
  const navigate = useNavigate();
  const deletePlan = useDeletePlan();
  const rename = useRename({ table: "plans", thing: "plan", refetches: [planKeys.all] });
  const [openDialog, setOpenDialog] = useState<"edit" | "delete" | null>(null);
  // On phones the tasks come first; what else there is to know of the plan is a press away.
  const [unfolded, setUnfolded] = useState(false);
  const detail = !unfolded && "max-md:hidden print:flex";
  const closeUnless = (open: boolean) => open || setOpenDialog(null);
  const percent = percentOf(done);
  const heading = (
    <h1
      tabIndex={-1}
      dir="auto"
      className="inline text-title [overflow-wrap:anywhere] max-md:text-[1.375rem] max-md:leading-7"
    >
      {plan.title}
    </h1>
  );

  return (
    <header ref={ref} className="grid gap-3 md:gap-6 lg:grid-cols-[minmax(0,1fr)_20rem] lg:gap-10">
      <div className="relative min-w-0">
        {/* On phones the buttons stand at its end. */}
        <div className="flex min-h-11 items-center justify-between gap-3 max-md:pe-24 print:hidden">
          <Button asChild variant="ghost" size="small" className="-ml-3 text-muted-foreground">
            <Link to="/dashboard">
              <ArrowLeftIcon aria-hidden className="rtl:-scale-x-100" />
              Back to plans
            </Link>
          </Button>
          {presence}
        </div>
        <div className="flex items-start gap-3 md:mt-2">
          <div className="min-w-0 grow">
            {canEdit(role) ? (
              <InlineEdit
                label="Rename the plan"
                value={plan.title}
                faultOf={titleFaultOf}
                save={(title, seen) => rename({ id: plan.id, title, seen })}
                className="text-title"
              >
                {heading}
              </InlineEdit>
            ) : (
              heading
            )}
          </div>
          <div className="flex shrink-0 gap-1 max-md:absolute max-md:end-0 max-md:top-0 print:hidden">
            {canEdit(role) && (
              <Button variant="secondary" aria-label="Edit plan" onClick={() => setOpenDialog("edit")}>
                <PencilIcon aria-hidden />
                <span className="max-md:sr-only">Edit</span>
              </Button>
            )}
            <DropdownMenu>
              <MoreButton label="More actions for this plan" className="size-11 md:size-10" />
              <DropdownMenuContent align="end">
                <DropdownMenuItem onSelect={() => void navigate(`/plan/${plan.id}/print`)}>
                  <PrinterIcon aria-hidden />
                  Print view
                </DropdownMenuItem>
                <DropdownMenuItem onSelect={() => void navigate(`/plan/${plan.id}/report`)}>
                  <FileTextIcon aria-hidden />
                  Report…
                </DropdownMenuItem>
                <DropdownMenuItem onSelect={onExport}>
                  <DownloadIcon aria-hidden />
                  Export to CSV
                </DropdownMenuItem>
                <DropdownMenuItem onSelect={onActivity}>
                  <HistoryIcon aria-hidden />
                  Activity
                </DropdownMenuItem>
                {canEdit(role) && (
                  <DropdownMenuItem onSelect={onDeletedItems}>
                    <ArchiveRestoreIcon aria-hidden />
                    Deleted items
                  </DropdownMenuItem>
                )}
                {role === "owner" && (
                  <>
                    <DropdownMenuSeparator />
                    <DropdownMenuItem tone="destructive" onSelect={() => setOpenDialog("delete")}>
                      <Trash2Icon aria-hidden />
                      Delete plan
                    </DropdownMenuItem>
                  </>
                )}
              </DropdownMenuContent>
            </DropdownMenu>
          </div>
        </div>
        <div className="mt-1 flex min-h-6 flex-wrap items-center gap-2 md:mt-3">
          <Badge tone="outline" title={formatInstant(plan.created_at)} className={cn(detail)}>
            Created {formatDay(plan.created_at)}
          </Badge>
          {role && <Badge tone="primary">You: {role}</Badge>}
          <button
            type="button"
            aria-expanded={unfolded}
            className="-my-2 min-h-11 rounded-md px-2 font-medium text-muted-foreground text-sm underline decoration-from-font underline-offset-2 md:hidden print:hidden"
            onClick={() => setUnfolded(!unfolded)}
          >
            {unfolded ? "Fewer details" : "Details"}
          </button>
        </div>
        <dl className={cn("mt-4 flex flex-wrap gap-x-8 gap-y-2 text-sm", detail)}>
          <PlanDate name="Start" day={plan.start_date} />
          <PlanDate name="End" day={plan.estimated_end_date} />
        </dl>
        {plan.description && (
          <div className={cn("mt-4", !unfolded && "max-md:hidden print:block")}>
            <h2 className="sr-only">Description</h2>
            <RichText html={plan.description} className="max-w-prose text-[0.9375rem]" />
          </div>
        )}
      </div>
      <section
        aria-label="Progress"
        className="self-start max-md:grid max-md:grid-cols-[auto_1fr_auto] max-md:items-center max-md:gap-x-3 md:rounded-xl md:border md:bg-surface md:p-4"
      >
        {/* Kept free while it is loaded; without priorities there is nothing to draw. */}
        {priorities?.length !== 0 && (
          <div className="mb-4 flex h-36 items-end justify-center max-md:hidden">
            {priorities && (
              <ColumnsChart
                columns={priorities}
                className="max-h-full"
                label={`Progress by priority: ${priorities.map(({ title, percent: part }) => `${title} ${part}%`).join(", ")}`}
              />
            )}
          </div>
        )}
        <div className="flex items-baseline justify-between text-sm max-md:contents">
          <h2 className="font-semibold">Progress</h2>
          <span className="font-semibold tabular-nums max-md:order-2">{percent}%</span>
        </div>
        <Progress percent={percent} label="Progress of the plan" className="max-md:order-1 md:mt-2" />
        <dl
          className={cn(
            "mt-1 flex justify-between gap-4 text-muted-foreground text-sm tabular-nums max-md:order-3 max-md:col-span-3 md:mt-3",
            detail,
          )}
        >
          <div className="flex gap-1.5">
            <dt>Priorities</dt>
            <dd className="font-medium text-foreground">{priorities?.length ?? "–"}</dd>
          </div>
          <div className="flex gap-1.5">
            <dt>Tasks</dt>
            <dd className="font-medium text-foreground">
              {done.completed}/{done.total}
            </dd>
          </div>
        </dl>
      </section>
      <EditPlanDialog open={openDialog === "edit"} onOpenChange={closeUnless} plan={plan} />
      <ConfirmDialog
        open={openDialog === "delete"}
        onOpenChange={closeUnless}
        title="Delete Plan"
        description={`Are you sure you want to delete “${plan.title}”? All its priorities and tasks will also be deleted. You can restore it for 30 days.`}
        confirmLabel="Delete Plan"
        busyLabel="Deleting..."
        onConfirm={() => deletePlan.mutateAsync(plan.id).then(() => void navigate("/dashboard", { replace: true }))}
      />
    </header>
  );
}

function PlanDate({ name, day }: { name: string; day: string | null }) {
  return (
    <div className="flex items-center gap-2">
      <CalendarDaysIcon className="size-4 text-muted-foreground" aria-hidden />
      <dt className="text-muted-foreground">{name}</dt>
      <dd className="font-medium">{day ? formatDay(day) : "Not set"}</dd>
    </div>
  );
}
