import { CalendarDaysIcon } from "lucide-react";
import { ColumnsChart } from "@/components/columns-chart";
import { cn } from "@/lib/cn";

const priorities = [
  { key: "hubs", name: "Open four hubs", percent: 50 },
  { key: "produce", name: "Fresh produce", percent: 80 },
  { key: "courses", name: "Courses people ask for", percent: 35 },
  { key: "funding", name: "Funding for three years", percent: 62 },
  { key: "volunteers", name: "Sixty new volunteers", percent: 20 },
];

/** A plan as the product draws it, one column for each of its priorities: hidden from those who hear the text beside it. */
export function PlanScene() {
  return (
    <div
      aria-hidden
      inert
      className="relative min-w-0 select-none rounded-xl border bg-surface-raised p-5 text-sm shadow-raised sm:p-7"
    >
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
    </div>
  );
}
