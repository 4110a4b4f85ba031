import { type CSSProperties, useId } from "react";
import { cn } from "@/lib/cn";

export interface ChartColumn {
  key: string;
  /** 0 to 100: how high it stands. */
  percent: number;
}

interface ColumnsChartProps {
  columns: ChartColumn[];
  /** What the drawing says, where no text beside it does. */
  label?: string;
  /** Shows with dashes how far it is to the summits. */
  goals?: boolean;
  className?: string;
}

const width = 44;
const gap = 12;
const depth = 20;
const fullHeight = 132;
const [far, near, half] = [width / 2, width / 4, depth / 2];
const ground = half + fullHeight + 4;

/** One column of basalt per part, its height how much of it is done, the dashes its goal; the amber one is the highest, where there is one. */
export function ColumnsChart({ columns, label, goals = true, className }: ColumnsChartProps) {
  const id = useId();
  const summit = highest(columns);
  const total = columns.length * width + (columns.length - 1) * gap;
  const centre = (index: number) => far + index * (width + gap);
  return (
    <svg
      viewBox={`-2 0 ${total + 4} ${ground + half + 4}`}
      className={cn("max-w-full", className)}
      focusable="false"
      role={label ? "img" : undefined}
      aria-label={label}
      aria-hidden={label ? undefined : true}
    >
      <defs>
        {/* Above the ground. A column rises out of it. */}
        <clipPath id={id}>
          {columns.map(({ key }, index) => (
            <path
              key={key}
              d={`M${centre(index) - far - 2} -8H${centre(index) + far + 2}V${ground}L${centre(index) + near} ${ground + half + 1}H${centre(index) - near}L${centre(index) - far - 2} ${ground}Z`}
            />
          ))}
        </clipPath>
      </defs>
      {columns.map(({ key, percent }, index) => (
        <g key={key}>
          <path className="fill-muted" d={hexagon(centre(index), ground)} />
          {goals && percent < 100 && (
            <g className="fill-none stroke-input" strokeDasharray="3 3" strokeWidth="1">
              <path d={hexagon(centre(index), half + 4)} />
              <path
                d={`M${centre(index) - far} ${half + 4}V${ground}M${centre(index) + far} ${half + 4}V${ground}`}
                opacity="0.5"
              />
            </g>
          )}
        </g>
      ))}
      <g clipPath={`url(#${id})`}>
        {columns.map(({ key, percent }, index) => {
          const height = Math.max((percent / 100) * fullHeight, 2);
          const [x, top] = [centre(index), ground - height];
          return (
            <g
              key={key}
              className={cn("animate-rise-column", key === summit ? "art-summit" : "art-column")}
              style={{ "--rise": `${height}px` } as CSSProperties}
              strokeLinejoin="round"
            >
              <path
                className="fill-(--art-left)"
                d={`M${x - far} ${top}L${x - near} ${top + half}V${ground + half}L${x - far} ${ground}Z`}
              />
              <path
                className="fill-(--art-front)"
                d={`M${x - near} ${top + half}H${x + near}V${ground + half}H${x - near}Z`}
              />
              <path
                className="fill-(--art-right)"
                d={`M${x + near} ${top + half}L${x + far} ${top}V${ground}L${x + near} ${ground + half}Z`}
              />
              <path className="fill-(--art-top)" d={hexagon(x, top)} />
            </g>
          );
        })}
      </g>
    </svg>
  );
}

function hexagon(x: number, y: number) {
  return `M${x - far} ${y}L${x - near} ${y - half}H${x + near}L${x + far} ${y}L${x + near} ${y + half}H${x - near}Z`;
}

/** The key of the highest column; none while nothing has been done, or where several are as high. */
export function highest(columns: ChartColumn[]) {
  const top = Math.max(0, ...columns.map(({ percent }) => percent));
  const summits = columns.filter(({ percent }) => percent === top);
  return top > 0 && summits.length === 1 ? (summits[0]?.key ?? null) : null;
}
