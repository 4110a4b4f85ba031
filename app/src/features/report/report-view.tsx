import type { ReactNode } from "react";
import { ColumnsChart } from "@/components/columns-chart";
import { LogoPicture } from "@/components/logo-picture";
import { RichText } from "@/components/rich-text";
import { chartColumns } from "@/lib/chart-columns";
import { formatDay, formatDays } from "@/lib/dates";
import { percentOf } from "@/lib/progress";
import type { Report, ReportTask } from "./queries";
import { TrendChart } from "./trend-chart";

interface ReportViewProps {
  report: Report;
  /** Rich text. */
  comment: string | null;
}

const noTasks = { total: 0, tasks: [] };

/** The report itself, on the screen and on paper: the cover is a page of its own there. */
export function ReportView({ report, comment }: ReportViewProps) {
  const { organization, priorities, months, lists } = report;
  const { done = noTasks, late = noTasks, next = noTasks, later = noTasks, undated = noTasks } = lists;
  const overall = {
    completed: priorities.reduce((sum, { completed }) => sum + completed, 0),
    total: priorities.reduce((sum, { total }) => sum + total, 0),
  };
  const shares = priorities.map((priority, index) => ({
    key: String(index),
    title: priority.title,
    percent: percentOf(priority),
  }));
  const nameOf = (task: ReportTask) => priorities[task.priority]?.title ?? "";
  const figures = [
    { name: "Done in this period", value: done.total },
    { name: "Late", value: late.total },
    { name: "Due in 90 days", value: next.total },
    { name: "Of all tasks done", value: `${percentOf(overall)}%` },
  ];
  return (
    <article className="report-pages [overflow-wrap:anywhere]">
      <header className="report-cover flex flex-col">
        {organization && (organization.name || organization.logo_url) && (
          <div className="flex items-center gap-4">
            {organization.logo_url && <LogoPicture url={organization.logo_url} className="size-14 print:size-20" />}
            <p dir="auto" className="text-heading">
              {organization.name}
            </p>
          </div>
        )}
        <p className="mt-10 font-medium text-primary text-sm uppercase tracking-wide print:mt-auto">Progress report</p>
        <h1 tabIndex={-1} dir="auto" className="mt-2 text-title print:text-5xl">
          {report.title}
        </h1>
        <p className="mt-3 text-lg text-muted-foreground print:text-xl">
          {formatDays(report.first_day, report.last_day)}
        </p>
        <dl className="mt-8 grid grid-cols-2 gap-x-6 gap-y-5 border-t pt-6 sm:grid-cols-4 print:grid-cols-4">
          {figures.map(({ name, value }) => (
            <div key={name} className="flex flex-col-reverse justify-end">
              <dt className="text-muted-foreground text-sm leading-snug">{name}</dt>
              <dd className="text-title tabular-nums">{value}</dd>
            </div>
          ))}
        </dl>
        {shares.length > 0 && (
          <div className="mt-8 flex h-44 items-end justify-center print:mt-auto print:h-64 print:pb-4">
            <ColumnsChart
              columns={chartColumns(shares)}
              className="max-h-full"
              label={`Progress by priority: ${shares.map(({ title, percent }) => `${title} ${percent}%`).join(", ")}`}
            />
          </div>
        )}
        <p className="mt-6 text-muted-foreground text-sm">As of {formatDay(report.as_of)}</p>
      </header>

      {comment && (
        <Part title="Comment">
          <RichText html={comment} className="max-w-prose" />
        </Part>
      )}

      <Part title="Progress by priority">
        {priorities.length === 0 ? (
          <Nothing>The report includes no priorities.</Nothing>
        ) : (
          <table className="w-full text-sm">
            <thead className="sr-only">
              <tr>
                <th scope="col">Priority</th>
                <th scope="col">Tasks done</th>
                <th scope="col">Percent</th>
              </tr>
            </thead>
            <tbody>
              {priorities.map((priority, index) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: its place is all that the report says of which priority it is
                <tr key={index} className="break-inside-avoid border-b last:border-0">
                  <th scope="row" dir="auto" className="py-2 pe-4 text-start font-medium">
                    {priority.title}
                  </th>
                  <td className="whitespace-nowrap py-2 pe-4 text-end align-top text-muted-foreground tabular-nums">
                    {priority.completed} of {priority.total}
                    <span className="max-sm:sr-only"> done</span>
                  </td>
                  <td className="w-12 py-2 text-end align-top font-semibold tabular-nums">{percentOf(priority)}%</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Part>

      <Part title="Tasks completed per month" whole>
        <TrendChart months={months} />
      </Part>

      <Part title={`Done in this period (${done.total})`}>
        <Tasks
          list={done}
          none="No task was completed in this period."
          nameOf={nameOf}
          dayOf={(task) => task.done && formatDay(task.done)}
          day="Done"
        />
      </Part>

      <Part title={`Late (${late.total})`}>
        <Tasks
          list={late}
          none="Nothing is late."
          nameOf={nameOf}
          dayOf={(task) => task.due && formatDay(task.due)}
          day="Was due"
          note={(task) => task.done && `Completed ${formatDay(task.done)}`}
        />
      </Part>

      <Part title={`What comes next (${next.total})`}>
        <Tasks
          list={next}
          none="Nothing is due in the next 90 days."
          nameOf={nameOf}
          dayOf={(task) => task.due && formatDay(task.due)}
          day="Due"
        />
        {later.total + undated.total > 0 && (
          <p className="mt-3 break-before-avoid text-muted-foreground text-sm">
            {othersOf(later.total, undated.total)}
          </p>
        )}
      </Part>
    </article>
  );
}

/** "3 more tasks are due later, and 1 task has no date." */
export function othersOf(later: number, undated: number) {
  const parts = [
    later > 0 && (later === 1 ? "1 more task is due later" : `${later} more tasks are due later`),
    undated > 0 && (undated === 1 ? "1 task has no date" : `${undated} tasks have no date`),
  ];
  return `${parts.filter(Boolean).join(", and ")}.`;
}

interface PartProps {
  title: string;
  /** Stays on one page. */
  whole?: boolean;
  children: ReactNode;
}

/** A heading stays with the first lines below it. */
function Part({ title, whole = false, children }: PartProps) {
  return (
    <section className={whole ? "mt-10 break-inside-avoid" : "mt-10"}>
      <h2 className="mb-3 break-after-avoid text-heading">{title}</h2>
      {children}
    </section>
  );
}

function Nothing({ children }: { children: string }) {
  return <p className="text-muted-foreground text-sm">{children}</p>;
}

interface TasksProps {
  list: { total: number; tasks: ReportTask[] };
  none: string;
  nameOf: (task: ReportTask) => string;
  dayOf: (task: ReportTask) => string | null;
  /** What the day is. */
  day: string;
  note?: (task: ReportTask) => string | null;
}

function Tasks({ list, none, nameOf, dayOf, day, note }: TasksProps) {
  if (list.total === 0) return <Nothing>{none}</Nothing>;
  const more = list.total - list.tasks.length;
  return (
    <>
      <table className="w-full text-sm">
        <thead>
          <tr className="border-b text-muted-foreground text-xs">
            <th scope="col" className="pb-1.5 text-start font-medium">
              Task
            </th>
            <th scope="col" className="w-28 pb-1.5 text-end font-medium">
              {day}
            </th>
          </tr>
        </thead>
        <tbody>
          {list.tasks.map((task, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the report has no ids, and its rows have no state
            <tr key={index} className="break-inside-avoid border-b last:border-0">
              <td className="py-2 pe-4">
                <span dir="auto" className="font-medium">
                  {task.title}
                </span>
                <span dir="auto" className="block text-muted-foreground text-xs">
                  {nameOf(task)}
                </span>
                {note?.(task) && <span className="block text-success text-xs">{note(task)}</span>}
              </td>
              <td className="whitespace-nowrap py-2 text-end align-top tabular-nums">{dayOf(task)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {more > 0 && (
        <p className="mt-3 break-before-avoid text-muted-foreground text-sm">
          And {more.toLocaleString("en-US")} more.
        </p>
      )}
    </>
  );
}
