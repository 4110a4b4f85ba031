import { cn } from "@/lib/cn";
import { formatMonth } from "@/lib/dates";

interface TrendChartProps {
  /** Each with its first day. */
  months: { month: string; completed: number }[];
}

/** How many tasks were completed in each month of the period. */
export function TrendChart({ months }: TrendChartProps) {
  const most = Math.max(1, ...months.map(({ completed }) => completed));
  // Names of more months would run into one another.
  const step = months.length <= 12 ? 1 : months.length <= 24 ? 3 : 6;
  const label = months.map(({ month, completed }) => `${formatMonth(month)} ${month.slice(0, 4)}: ${completed}`);
  return (
    <div role="img" aria-label={`Tasks completed per month. ${label.join(", ")}`} className="text-xs tabular-nums">
      <div className="art-column flex h-40 items-end gap-[2px] border-b sm:gap-1.5">
        {months.map(({ month, completed }) => (
          <div key={month} className="flex h-full min-w-0 grow basis-0 flex-col items-center justify-end">
            {(months.length <= 24 || completed === most) && <span className="h-5">{completed || ""}</span>}
            {/* A drawing, not a background: those are left out of many prints. */}
            <svg
              aria-hidden
              focusable="false"
              viewBox="0 0 1 1"
              preserveAspectRatio="none"
              className="w-full max-w-14"
              style={{ height: `calc((100% - 1.25rem) * ${completed / most})` }}
            >
              <rect width="1" height="1" className="fill-(--art-front)" stroke="none" />
            </svg>
          </div>
        ))}
      </div>
      <div className="mt-1.5 flex gap-[2px] text-muted-foreground sm:gap-1.5">
        {months.map(({ month }, index) => (
          <div
            key={month}
            className={cn(
              "flex min-w-0 grow basis-0 flex-col items-center whitespace-nowrap",
              // On phones every other name.
              months.length > 6 && (index / step) % 2 === 1 && "max-sm:invisible",
            )}
          >
            {index % step === 0 && (
              <>
                <span>{formatMonth(month)}</span>
                {(index === 0 || month.slice(5, 7) === "01" || step > 1) && <span>{month.slice(0, 4)}</span>}
              </>
            )}
          </div>
        ))}
      </div>
    </div>
  );
}
