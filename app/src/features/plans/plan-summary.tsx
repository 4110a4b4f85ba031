import { Link } from "react-router";
import { Card } from "@/components/ui/card";
import { cn } from "@/lib/cn";
import { percentOf } from "@/lib/progress";
import type { Summary } from "./metrics";

/** How all plans together are going: figures that lead to their tasks, and the last twelve weeks. */
export function PlanSummary({ summary }: { summary: Summary }) {
  const { done, overdue, dueThisWeek, mine, weeks } = summary;
  return (
    <Card className="mb-6">
      <section aria-label="All plans" className="grid grid-cols-2 sm:grid-cols-4 lg:grid-cols-[repeat(4,auto)_1fr]">
        <Figure label="Completed" value={`${done.completed}/${done.total}`} note={`${percentOf(done)}% of tasks`} />
        <Figure label="My tasks" value={String(mine)} note="to do" to="/dashboard?tasks=mine" />
        <Figure
          label="Due this week"
          value={String(dueThisWeek)}
          note={dueThisWeek === 1 ? "task" : "tasks"}
          to="/dashboard?tasks=week"
        />
        <Figure
          label="Overdue"
          value={String(overdue)}
          note={overdue === 0 ? "all on time" : overdue === 1 ? "task" : "tasks"}
          tone={overdue > 0 ? "late" : "calm"}
          to="/dashboard?tasks=overdue"
        />
        <Weeks weeks={weeks} />
      </section>
    </Card>
  );
}

interface FigureProps {
  label: string;
  value: string;
  note: string;
  tone?: "calm" | "late";
  /** Where its tasks are listed. */
  to?: string;
}

function Figure({ label, value, note, tone = "calm", to }: FigureProps) {
  const figure = (
    <>
      <p className="text-muted-foreground text-xs">{label}</p>
      <p className={cn("mt-0.5 font-semibold text-xl tabular-nums", tone === "late" && "text-destructive")}>{value}</p>
      <p className="text-muted-foreground text-xs">{note}</p>
    </>
  );
  const box = "px-4 py-3.5 sm:px-5";
  if (!to) return <div className={box}>{figure}</div>;
  return (
    <Link to={to} className={cn(box, "rounded-lg transition-colors hover:bg-muted")}>
      {figure}
    </Link>
  );
}

const [height, step, width] = [36, 14, 8];

function Weeks({ weeks }: { weeks: number[] }) {
  const most = Math.max(...weeks, 1);
  const total = weeks.reduce((sum, week) => sum + week, 0);
  return (
    <div className="flex items-end justify-between gap-4 px-4 py-3.5 col-span-2 border-t sm:col-span-4 sm:px-5 lg:col-span-1 lg:border-s lg:border-t-0">
      <div>
        <p className="text-muted-foreground text-xs">Last 12 weeks</p>
        <p className="mt-0.5 font-semibold text-xl tabular-nums">{total}</p>
        <p className="text-muted-foreground text-xs">completed</p>
      </div>
      <svg
        viewBox={`0 0 ${weeks.length * step} ${height}`}
        className="h-10 min-w-0 max-w-44 grow"
        role="img"
        aria-label={`Tasks completed in each of the last twelve weeks: ${weeks.join(", ")}`}
        preserveAspectRatio="xMaxYMax meet"
        focusable="false"
      >
        {weeks.map((week, index) => {
          const tall = week === 0 ? 2 : Math.max((week / most) * height, 5);
          return (
            <rect
              // biome-ignore lint/suspicious/noArrayIndexKey: a week is its place
              key={index}
              x={index * step + (step - width)}
              y={height - tall}
              width={width}
              height={tall}
              rx="2"
              className={week === 0 ? "fill-border" : week === most ? "fill-accent" : "fill-primary"}
            />
          );
        })}
      </svg>
    </div>
  );
}
