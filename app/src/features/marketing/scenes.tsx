import { CalendarDaysIcon, CheckIcon, FileTextIcon, PaperclipIcon } from "lucide-react";
import type { ReactNode } from "react";
import { ColumnsChart } from "@/components/columns-chart";
import { cn } from "@/lib/cn";

/** The product at work, drawn in HTML: a picture to look at, hidden from those who hear the text beside it. */
function Scene({ className, children }: { className?: string; children: ReactNode }) {
  return (
    <div
      aria-hidden
      inert
      className={cn(
        "relative min-w-0 select-none rounded-xl border bg-surface-raised text-sm shadow-raised",
        className,
      )}
    >
      {children}
    </div>
  );
}

const priorities = [
  { key: "hubs", name: "Open four hubs", percent: 50 },
  { key: "produce", name: "Fresh produce", percent: 80 },
  { key: "courses", name: "Courses people ask for", percent: 35 },
  { key: "funding", name: "Funding for three years", percent: 62 },
  { key: "volunteers", name: "Sixty new volunteers", percent: 20 },
];

/** The hero's: a plan, one column for each of its priorities. */
export function PlanScene() {
  return (
    <Scene className="p-5 sm:p-7">
      <div className="flex items-start justify-between gap-4">
        <div>
          <p className="font-display font-semibold text-xl leading-tight tracking-tight">
            Food security for 500 families
          </p>
          <p className="mt-1.5 flex items-center gap-1.5 text-muted-foreground text-xs">
            <CalendarDaysIcon className="size-3.5" /> Jan 2026 – Dec 2027
          </p>
        </div>
        <p className="shrink-0 text-right">
          <span className="block font-display text-3xl leading-none tracking-tight tabular-nums">49%</span>
          <span className="text-muted-foreground text-xs">21 of 43 tasks</span>
        </p>
      </div>
      <ColumnsChart columns={priorities} className="mx-auto mt-6 h-44 sm:h-52" />
      <ul className="mt-5 grid gap-x-6 gap-y-1.5 border-t pt-4 text-xs sm:grid-cols-2">
        {priorities.map(({ key, name, percent }) => (
          <li key={key} className="flex items-center gap-2">
            <span className={cn("size-2 rounded-[3px]", percent === 80 ? "bg-accent" : "bg-primary/75")} />
            <span className="min-w-0 grow truncate">{name}</span>
            <span className="font-medium tabular-nums">{percent}%</span>
          </li>
        ))}
      </ul>
    </Scene>
  );
}

const steps = [
  { text: "Sign the lease for St Mark's hall", who: "DD", due: "Mar 2", done: true },
  { text: "Fridge and shelving for the first hub", who: "TO", due: "Apr 11", done: true },
  { text: "Find a hall in Eastfield", who: "MF", due: "May 30", done: false },
  { text: "Key holders for every hub", who: "TO", due: "Jul 4", done: false },
];

/** A priority and the steps that lead to it. */
export function StepsScene() {
  return (
    <Scene>
      <div className="flex items-center gap-4 border-b px-5 py-4">
        <span className="min-w-0 grow truncate font-semibold">Open four neighborhood hubs</span>
        <span className="shrink-0 text-muted-foreground text-xs tabular-nums">2/4</span>
        <span className="h-1.5 w-14 shrink-0 overflow-hidden rounded-full bg-muted">
          <span className="block h-full w-1/2 rounded-full bg-primary" />
        </span>
      </div>
      <ul>
        {steps.map(({ text, who, due, done }) => (
          <li key={text} className="flex min-h-12 items-center gap-3 border-b px-5 last:border-b-0">
            <span
              className={cn(
                "grid size-4.5 shrink-0 place-items-center rounded-sm border border-input",
                done && "border-primary bg-primary text-primary-foreground",
              )}
            >
              {done && <CheckIcon className="size-3.5" strokeWidth={3} />}
            </span>
            <span className={cn("min-w-0 grow truncate", done && "text-muted-foreground")}>{text}</span>
            <span className="shrink-0 text-muted-foreground text-xs tabular-nums">{due}</span>
            <Initials text={who} />
          </li>
        ))}
      </ul>
    </Scene>
  );
}

const team = [
  { initials: "DD", name: "Dana Dorsey", role: "Owner", note: "completed “Agreement with Hill Farm”" },
  { initials: "MF", name: "Maya Fischer", role: "Manager", note: "added “Pilot: cooking for two pounds”" },
  { initials: "TO", name: "Tom Okafor", role: "Viewer", note: "joined the plan" },
];

/** The people of a plan, and what they have just done. */
export function TeamScene() {
  return (
    <Scene>
      <ul>
        {team.map(({ initials, name, role, note }) => (
          <li key={name} className="flex items-center gap-3.5 border-b px-5 py-4 last:border-b-0">
            <Initials text={initials} large />
            <span className="min-w-0 grow">
              <span className="block truncate font-semibold">{name}</span>
              <span className="block truncate text-muted-foreground text-xs">{note}</span>
            </span>
            <span className="shrink-0 rounded-full bg-primary-soft px-2.5 py-0.5 font-medium text-primary-soft-foreground text-xs">
              {role}
            </span>
          </li>
        ))}
      </ul>
      <div className="flex items-center gap-3 rounded-b-xl border-t bg-surface px-5 py-3.5 text-muted-foreground text-xs">
        <PaperclipIcon className="size-3.5 shrink-0" />
        <span className="min-w-0 truncate">Budget 2026.xlsx, Board minutes.pdf and 4 more</span>
      </div>
    </Scene>
  );
}

/** What a funder wants to see: tasks done over time. */
export function ReportScene() {
  const done = [2, 3, 5, 6, 9, 11, 12, 15, 18, 21];
  const [width, height, most] = [320, 120, 24];
  const points = done.map((tasks, index) => [
    (index / (done.length - 1)) * width,
    height - (tasks / most) * height,
  ]) as [number, number][];
  const line = points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
  const last = points.at(-1) ?? [0, 0];
  return (
    <Scene className="p-5 sm:p-6">
      <div className="flex items-baseline justify-between gap-4">
        <span className="font-semibold">Tasks completed</span>
        <span className="text-muted-foreground text-xs">this year</span>
      </div>
      <svg viewBox={`-4 -12 ${width + 12} ${height + 16}`} className="mt-4 w-full" aria-hidden focusable="false">
        {[0, 0.5, 1].map((share) => (
          <path key={share} d={`M0 ${height * share}H${width}`} className="stroke-border" strokeDasharray="3 4" />
        ))}
        <path d={`M0 ${height}L${line}V${height}Z`} className="fill-primary/10" />
        <path
          d={`M${line}`}
          className="fill-none stroke-primary"
          strokeWidth="2.5"
          strokeLinecap="round"
          strokeLinejoin="round"
        />
        <circle cx={last[0]} cy={last[1]} r="6" className="fill-accent stroke-surface-raised" strokeWidth="2.5" />
      </svg>
      <div className="mt-4 flex items-center gap-3 rounded-md bg-muted px-3.5 py-2.5 text-xs">
        <FileTextIcon className="size-4 shrink-0 text-muted-foreground" />
        <span className="min-w-0 grow truncate">Progress for the Harbour Foundation</span>
        <span className="shrink-0 font-medium tabular-nums">21 / 43</span>
      </div>
    </Scene>
  );
}

function Initials({ text, large = false }: { text: string; large?: boolean }) {
  return (
    <span
      className={cn(
        "grid shrink-0 place-items-center rounded-full bg-primary-soft font-semibold text-primary-soft-foreground",
        large ? "size-9 text-xs" : "size-6 text-[0.625rem]",
      )}
    >
      {text}
    </span>
  );
}
