import { CalendarDaysIcon, PencilIcon, Trash2Icon } from "lucide-react";
import { useId } from "react";
import { RichText } from "@/components/rich-text";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { formatAge, formatDay, formatInstant } from "@/lib/dates";
import type { Plan, PlanRole } from "./queries";

interface PlanCardProps {
  plan: Plan;
  role: PlanRole;
  onEdit: () => void;
  onDelete: () => void;
}

export function PlanCard({ plan, role, onEdit, onDelete }: PlanCardProps) {
  const titleId = useId();
  return (
    <Card className="flex h-full flex-col transition-shadow duration-200 hover:shadow-raised">
      <article aria-labelledby={titleId} className="flex grow flex-col gap-4 p-5 sm:p-6">
        <header className="flex items-start gap-3">
          <div className="min-w-0 grow">
            <h2 id={titleId} className="text-heading [overflow-wrap:anywhere]">
              {plan.title}
            </h2>
            <p className="mt-1 text-muted-foreground text-sm">
              Created{" "}
              <time dateTime={plan.created_at} title={formatInstant(plan.created_at)}>
                {formatAge(plan.created_at)}
              </time>
            </p>
          </div>
          <div className="-mt-1.5 -mr-2 flex">
            {role !== "viewer" && (
              <Button variant="ghost" size="icon" aria-label={`Edit ${plan.title}`} title="Edit plan" onClick={onEdit}>
                <PencilIcon aria-hidden />
              </Button>
            )}
            {role === "owner" && (
              <Button
                variant="ghost"
                size="icon"
                aria-label={`Delete ${plan.title}`}
                title="Delete plan"
                className="hover:bg-destructive-soft hover:text-destructive"
                onClick={onDelete}
              >
                <Trash2Icon aria-hidden />
              </Button>
            )}
          </div>
        </header>
        {plan.description && <RichText html={plan.description} className="line-clamp-5 text-[0.9375rem]" />}
        <p className="mt-auto flex items-center gap-2 border-t pt-4 text-muted-foreground text-sm">
          <CalendarDaysIcon className="size-4 shrink-0" aria-hidden />
          <span className="sr-only">Dates: </span>
          {plan.start_date ? formatDay(plan.start_date) : "Not started"}
          {plan.estimated_end_date && ` – ${formatDay(plan.estimated_end_date)}`}
        </p>
      </article>
    </Card>
  );
}
