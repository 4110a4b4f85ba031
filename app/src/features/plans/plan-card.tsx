import { ArchiveIcon, CalendarDaysIcon, CopyIcon, PencilIcon, Trash2Icon } from "lucide-react";
import { type ReactNode, useId, useState } from "react";
import { Link } from "react-router";
import { ColumnsChart } from "@/components/columns-chart";
import { RichText } from "@/components/rich-text";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { Collapsible, CollapsibleContent, CollapsibleTrigger } from "@/components/ui/collapsible";
import { DropdownMenu, DropdownMenuContent, DropdownMenuItem, MoreButton } from "@/components/ui/dropdown-menu";
import { Progress } from "@/components/ui/progress";
import { Skeleton } from "@/components/ui/skeleton";
import { formatAge, formatDay, formatInstant } from "@/lib/dates";
import type { PlanMetrics } from "./metrics";
import type { Plan, PlanRole } from "./queries";

/** More columns than this are too thin to be read. */
const mostColumns = 9;

interface PlanCardProps {
  plan: Plan;
  role: PlanRole;
  /** Null while the counts are on their way. */
  metrics: PlanMetrics | null;
  onEdit: () => void;
  onDelete: () => void;
  /** Puts the plan aside, or takes it up again. */
  onArchive: () => void;
  /** Null where the subscription includes no further plan. */
  onDuplicate: (() => void) | null;
  /** The plan's priorities, fetched when they are unfolded. */
  renderPriorities: () => ReactNode;
}

/** A plan on the dashboard. A press anywhere on its upper part opens it. */
export function PlanCard({ plan, role, metrics, renderPriorities, ...actions }: PlanCardProps) {
  const titleId = useId();
  const [open, setOpen] = useState(false);
  const path = `/plan/${plan.id}`;
  return (
    <Card className="transition-shadow duration-200 has-[[data-plan-link]:hover]:shadow-raised">
      <article aria-labelledby={titleId}>
        <div className="relative grid gap-x-8 gap-y-4 p-4 sm:p-5 md:grid-cols-[minmax(0,1fr)_15rem] md:pe-12">
          <div className="flex min-w-0 flex-col gap-3">
            <header className="max-md:pe-10">
              <h2 id={titleId} dir="auto" className="line-clamp-3 text-heading [overflow-wrap:anywhere]">
                <Link
                  to={path}
                  data-plan-link
                  title={plan.title.length > 80 ? plan.title : undefined}
                  className="rounded-xs after:absolute after:inset-0 after:rounded-xl hover:text-primary"
                >
                  {plan.title}
                </Link>
              </h2>
              <p className="mt-1 text-muted-foreground text-sm">
                Created{" "}
                <time dateTime={plan.created_at} title={formatInstant(plan.created_at)}>
                  {formatAge(plan.created_at)}
                </time>
              </p>
            </header>
            {plan.description && (
              // Links in it can be pressed; the rest lets the press through to the card.
              <div className="pointer-events-none relative z-10 [&_a]:pointer-events-auto">
                <RichText html={plan.description} className="line-clamp-3 text-sm" />
              </div>
            )}
            <p className="mt-auto flex items-center gap-2 text-muted-foreground text-sm">
              <CalendarDaysIcon className="size-4 shrink-0" aria-hidden />
              <span className="sr-only">Dates: </span>
              {plan.start_date ? formatDay(plan.start_date) : "Not started"}
              {plan.estimated_end_date && ` – ${formatDay(plan.estimated_end_date)}`}
            </p>
          </div>
          <div className="flex flex-col justify-end gap-3">
            {metrics && metrics.columns.length > 0 && (
              <ColumnsChart columns={metrics.columns.slice(0, mostColumns)} className="mx-auto h-20 max-md:hidden" />
            )}
            <Counts plan={plan} metrics={metrics} />
          </div>
          {role !== "viewer" && (
            <div className="absolute end-1.5 top-1.5 z-10 md:end-2 md:top-2">
              <Actions plan={plan} role={role} {...actions} />
            </div>
          )}
        </div>
        <Collapsible open={open} onOpenChange={setOpen} className="border-t">
          <div className="flex items-center justify-between gap-2 pe-2 ps-3 sm:ps-4">
            <CollapsibleTrigger aria-label={`Priorities of ${plan.title}`} className="grow py-1">
              Priorities {metrics ? `(${metrics.columns.length})` : ""}
            </CollapsibleTrigger>
            <Button asChild variant="ghost" size="small" className="text-primary">
              <Link to={path} aria-label={`View ${plan.title}`}>
                View
              </Link>
            </Button>
          </div>
          <CollapsibleContent className="border-t bg-surface p-3 sm:p-4">{renderPriorities()}</CollapsibleContent>
        </Collapsible>
      </article>
    </Card>
  );
}

type ActionsProps = Omit<PlanCardProps, "metrics" | "renderPriorities">;

function Actions({ plan, role, onEdit, onDelete, onArchive, onDuplicate }: ActionsProps) {
  return (
    <DropdownMenu>
      <MoreButton label={`Actions for ${plan.title}`} />
      <DropdownMenuContent align="end">
        <DropdownMenuItem onSelect={onEdit}>
          <PencilIcon aria-hidden />
          Edit plan
        </DropdownMenuItem>
        <DropdownMenuItem disabled={!onDuplicate} onSelect={() => onDuplicate?.()}>
          <CopyIcon aria-hidden />
          Duplicate plan
        </DropdownMenuItem>
        <DropdownMenuItem onSelect={onArchive}>
          <ArchiveIcon aria-hidden />
          {plan.archived_at ? "Take out of the archive" : "Archive plan"}
        </DropdownMenuItem>
        {role === "owner" && (
          <DropdownMenuItem tone="destructive" onSelect={onDelete}>
            <Trash2Icon aria-hidden />
            Delete plan
          </DropdownMenuItem>
        )}
      </DropdownMenuContent>
    </DropdownMenu>
  );
}

function Counts({ plan, metrics }: { plan: Plan; metrics: PlanMetrics | null }) {
  if (!metrics) {
    return (
      <div className="grid gap-3">
        <Skeleton className="h-5 w-full" />
        <Skeleton className="h-1.5" />
      </div>
    );
  }
  const counts = [
    { name: "Priorities", value: String(metrics.columns.length) },
    { name: "Tasks", value: `${metrics.done.completed}/${metrics.done.total}` },
    { name: "Files", value: String(metrics.files) },
  ];
  return (
    <div className="grid gap-2.5">
      <dl className="flex justify-between gap-3 text-sm">
        {counts.map(({ name, value }) => (
          <div key={name} className="flex gap-1.5">
            <dt className="text-muted-foreground">{name}</dt>
            <dd className="font-medium tabular-nums">{value}</dd>
          </div>
        ))}
      </dl>
      <div className="flex items-center gap-3">
        <Progress percent={metrics.percent} label={`Progress of ${plan.title}`} className="grow" />
        <span className="font-medium text-sm tabular-nums">{metrics.percent}%</span>
      </div>
    </div>
  );
}
