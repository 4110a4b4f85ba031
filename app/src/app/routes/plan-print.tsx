import { useQuery } from "@tanstack/react-query";
import { ArrowLeftIcon, PrinterIcon } from "lucide-react";
import { Link, useParams } from "react-router";
import { LogoPicture } from "@/components/logo-picture";
import { ErrorState, LoadingState } from "@/components/page-state";
import { RichText } from "@/components/rich-text";
import { Button } from "@/components/ui/button";
import { organizationQuery } from "@/features/organization/queries";
import { planQuery } from "@/features/plans/queries";
import { priorityListQuery } from "@/features/priorities/queries";
import { inPrintOrder } from "@/features/tasks/print-order";
import { taskListQuery } from "@/features/tasks/queries";
import { TaskFacts } from "@/features/tasks/task-row";
import { useDocumentTitle } from "@/hooks/use-document-title";
import { formatDay, today } from "@/lib/dates";
import { messageOf } from "@/lib/errors";
import { countDone, percentOf } from "@/lib/progress";

/** The whole plan on paper, or as a PDF for a funder: A4, nothing to press. */
export function Component() {
  const { planId = "" } = useParams();
  const plan = useQuery(planQuery(planId));
  const organization = useQuery(organizationQuery(planId));
  const priorities = useQuery(priorityListQuery(planId));
  const tasks = useQuery(taskListQuery(planId));
  useDocumentTitle(plan.data?.title ?? "Plan");

  const failed = [plan, priorities, tasks].find(({ isError, data }) => isError && data === undefined);
  if (failed || plan.data === null) {
    return (
      <ErrorState
        heading="h1"
        title={plan.data === null ? "Plan not found" : "The plan could not be loaded"}
        description={failed ? messageOf(failed.error) : "It may have been deleted, or you are not a member of it."}
        onRetry={() => void Promise.all([plan.refetch(), priorities.refetch(), tasks.refetch()])}
      />
    );
  }
  if (!plan.data || !priorities.data || !tasks.data || organization.isPending) {
    return <LoadingState label="Loading the plan..." />;
  }

  const { data: org } = organization;
  const done = countDone(tasks.data);
  const dates = [plan.data.start_date, plan.data.estimated_end_date].map((day) => (day ? formatDay(day) : "Not set"));
  return (
    <div className="mx-auto max-w-3xl px-4 py-8 text-sm print:max-w-none print:p-0">
      <div className="mb-6 flex justify-between gap-3 print:hidden">
        <Button asChild variant="secondary">
          <Link to={`/plan/${planId}`}>
            <ArrowLeftIcon aria-hidden className="rtl:-scale-x-100" />
            Back to the plan
          </Link>
        </Button>
        <Button onClick={() => window.print()}>
          <PrinterIcon aria-hidden />
          Print
        </Button>
      </div>
      <header className="border-b pb-4">
        {org && (
          <div className="mb-4 flex items-center gap-3">
            {org.logo_url && <LogoPicture url={org.logo_url} className="size-12" />}
            <div>
              <p className="font-semibold">{org.name}</p>
              {org.ein && <p className="text-muted-foreground">EIN {org.ein}</p>}
            </div>
          </div>
        )}
        <h1 tabIndex={-1} dir="auto" className="text-title [overflow-wrap:anywhere]">
          {plan.data.title}
        </h1>
        <p className="mt-2 text-muted-foreground">
          Start {dates[0]} · End {dates[1]} · {done.completed} of {done.total} tasks completed ({percentOf(done)}%) · as
          of {formatDay(today())}
        </p>
        {plan.data.description && <RichText html={plan.data.description} className="mt-3" />}
      </header>
      {org && (org.mission || org.vision || org.values) && (
        <dl className="grid gap-3 border-b py-4">
          {[
            { name: "Mission", text: org.mission },
            { name: "Vision", text: org.vision },
            { name: "Values", text: org.values },
          ].map(
            ({ name, text }) =>
              text && (
                <div key={name}>
                  <dt className="font-semibold">{name}</dt>
                  <dd className="whitespace-pre-line">{text}</dd>
                </div>
              ),
          )}
        </dl>
      )}
      {priorities.data.map((priority) => {
        const own = inPrintOrder(tasks.data.filter((task) => task.priority_id === priority.id));
        const part = countDone(own);
        return (
          <section key={priority.id} className="pt-5">
            <div className="break-after-avoid">
              <h2 dir="auto" className="text-heading [overflow-wrap:anywhere]">
                {priority.title}
              </h2>
              <p className="text-muted-foreground">
                Tasks {part.completed}/{part.total} · {percentOf(part)}%
              </p>
            </div>
            {priority.description && <RichText html={priority.description} className="mt-1" />}
            <ul className="mt-2">
              {own.map((task) => (
                <li key={task.id} className="flex break-inside-avoid gap-3 border-t py-2">
                  <span aria-hidden className="mt-0.5 size-3.5 shrink-0 border border-foreground text-center leading-3">
                    {task.is_completed && "✓"}
                  </span>
                  <div className="min-w-0 [overflow-wrap:anywhere]">
                    <p className="font-medium">
                      <span className="sr-only">{task.is_completed ? "Completed: " : "To do: "}</span>
                      {task.title}
                    </p>
                    {task.description && <RichText html={task.description} />}
                    <TaskFacts task={task} />
                  </div>
                </li>
              ))}
            </ul>
          </section>
        );
      })}
    </div>
  );
}
