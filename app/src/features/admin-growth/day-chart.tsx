import { type PointerEvent, useState } from "react";
import { formatDay } from "@/lib/dates";

interface DayChartProps {
  title: string;
  /** What stands large while no day is pointed at. */
  headline: string;
  headlineHint: string;
  days: { day: string; value: number }[];
  format: (value: number) => string;
  /** `bars` for what happens on a day, `line` for what is the case at its end. */
  look: "bars" | "line";
}

const height = 100;

/** One figure over days. Pointing at a day says that day's. */
export function DayChart({ title, headline, headlineHint, days, format, look }: DayChartProps) {
  const [pointedAt, setPointedAt] = useState<number | null>(null);
  const highest = Math.max(...days.map(({ value }) => value), 0);
  // Room above, so that the highest day does not touch the edge.
  const y = (value: number) => height - (highest === 0 ? 0 : (value / highest) * (height - 8)) - 1;
  const pointed = pointedAt === null ? undefined : days[pointedAt];
  const best = days.find(({ value }) => value === highest);
  const points = days.map(({ value }, index) => `${index + 0.5},${y(value).toFixed(2)}`).join(" ");

  function point({ currentTarget, clientX }: PointerEvent) {
    const { left, width } = currentTarget.getBoundingClientRect();
    const index = Math.floor(((clientX - left) / width) * days.length);
    setPointedAt(Math.min(Math.max(index, 0), days.length - 1));
  }

  return (
    <figure className="grid min-w-0 gap-3 rounded-xl border bg-surface-raised p-5 shadow-card">
      <figcaption className="grid gap-0.5">
        <span className="font-medium text-muted-foreground text-sm">{title}</span>
        <span className="font-display font-semibold text-2xl tabular-nums leading-tight">
          {pointed ? format(pointed.value) : headline}
        </span>
        <span className="text-muted-foreground text-xs">{pointed ? formatDay(pointed.day) : headlineHint}</span>
      </figcaption>
      <svg
        role="img"
        aria-label={`${title}, the last ${days.length} days: ${headline}. ${
          best && highest > 0 ? `Highest ${format(highest)} on ${formatDay(best.day)}.` : "Nothing yet."
        }`}
        viewBox={`0 0 ${days.length} ${height}`}
        preserveAspectRatio="none"
        className="h-24 w-full touch-pan-y overflow-visible"
        onPointerMove={point}
        onPointerLeave={() => setPointedAt(null)}
      >
        {/* The whole area takes the pointer. */}
        <rect width={days.length} height={height} className="fill-transparent" />
        <line
          x1="0"
          x2={days.length}
          y1={height - 0.5}
          y2={height - 0.5}
          className="stroke-border"
          vectorEffect="non-scaling-stroke"
        />
        {look === "bars" ? (
          days.map(({ day, value }, index) => (
            <rect
              key={day}
              x={index + 0.15}
              y={y(value)}
              width="0.7"
              height={value === 0 ? 0 : height - y(value)}
              className={index === pointedAt ? "fill-accent" : "fill-primary"}
            />
          ))
        ) : (
          <>
            <polygon points={`0.5,${height} ${points} ${days.length - 0.5},${height}`} className="fill-primary-soft" />
            <polyline
              points={points}
              className="fill-none stroke-primary"
              strokeWidth="2"
              strokeLinejoin="round"
              vectorEffect="non-scaling-stroke"
            />
            {pointedAt !== null && (
              <line
                x1={pointedAt + 0.5}
                x2={pointedAt + 0.5}
                y1="0"
                y2={height}
                className="stroke-accent"
                strokeWidth="2"
                vectorEffect="non-scaling-stroke"
              />
            )}
          </>
        )}
      </svg>
      <div aria-hidden className="flex justify-between text-muted-foreground text-xs">
        <span>{days[0] && formatDay(days[0].day)}</span>
        <span>Today</span>
      </div>
    </figure>
  );
}
