import { cn } from "@/lib/cn";

// Heights of the columns, back row first: a field of basalt that rises towards one summit.
const rows = [
  [26, 58, 84, 66, 40],
  [18, 44, 70, 108, 52],
  [10, 30, 52, 62, 34],
];
const width = 56;
const depth = 26;
const baseY = 190;

interface Column {
  key: string;
  x: number;
  top: number;
  bottom: number;
  summit: boolean;
}

const columns: Column[] = rows
  .flatMap((heights, row) =>
    heights.map((height, index) => {
      const ground = baseY - (rows.length - 1 - row) * depth + (index % 2) * (depth / 2) - depth / 2;
      return {
        key: `${row}-${index}`,
        x: 34 + index * width * 0.75,
        top: ground - height,
        bottom: ground,
        summit: height === Math.max(...rows.flat()),
      };
    }),
  )
  .sort((one, other) => one.bottom - other.bottom);

/** Hexagonal columns, as basalt stands in nature, lit from above on the right. Decoration. */
export function ColumnsArt({ className }: { className?: string }) {
  const [near, far, half] = [width / 4, width / 2, depth / 2];
  return (
    <svg viewBox="0 20 236 196" className={cn("w-auto", className)} aria-hidden focusable="false">
      {columns.map(({ key, x, top, bottom, summit }) => (
        <g key={key} className={summit ? "art-summit" : "art-column"} strokeLinejoin="round">
          <path
            className="fill-(--art-left)"
            d={`M${x - far} ${top}L${x - near} ${top + half}V${bottom + half}L${x - far} ${bottom}Z`}
          />
          <path
            className="fill-(--art-front)"
            d={`M${x - near} ${top + half}H${x + near}V${bottom + half}H${x - near}Z`}
          />
          <path
            className="fill-(--art-right)"
            d={`M${x + near} ${top + half}L${x + far} ${top}V${bottom}L${x + near} ${bottom + half}Z`}
          />
          <path
            className="fill-(--art-top)"
            d={`M${x - far} ${top}L${x - near} ${top - half}H${x + near}L${x + far} ${top}L${x + near} ${top + half}H${x - near}Z`}
          />
        </g>
      ))}
    </svg>
  );
}
