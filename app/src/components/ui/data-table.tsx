import type { ReactNode } from "react";
import { cn } from "@/lib/cn";

export interface Column<Row> {
  key: string;
  header: string;
  cell: (row: Row) => ReactNode;
  /** Names the row; on a phone it is the row's head, without a label. */
  isRowHeader?: boolean;
  /** Buttons, or a text that needs no label on a phone. */
  unlabelled?: boolean;
  align?: "start" | "end";
  /** Width and the like, of both the head and the cells. */
  className?: string;
}

interface DataTableProps<Row> {
  /** What the table holds, for those who cannot see where it stands. */
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
  rowClassName?: (row: Row) => string | undefined;
  /** Shows the caption below the table, to everyone. */
  showCaption?: boolean;
  /** The head stays while a box of limited height around the table scrolls. */
  stickyHead?: boolean;
  className?: string;
}

/** A table; on a phone each row is a block, its cells under one another with their labels. */
export function DataTable<Row>({
  caption,
  columns,
  rows,
  rowKey,
  rowClassName,
  showCaption = false,
  stickyHead = false,
  className,
}: DataTableProps<Row>) {
  return (
    // The roles are said aloud since `display: block` takes them away.
    // biome-ignore lint/a11y/noRedundantRoles: see above
    <table role="table" className={cn("w-full text-sm max-md:flex max-md:flex-col", className)}>
      <caption
        className={
          showCaption
            ? "caption-bottom px-4 py-3 text-muted-foreground text-sm max-md:order-last max-md:block"
            : "sr-only"
        }
      >
        {caption}
      </caption>
      {/* biome-ignore lint/a11y/noRedundantRoles: see above */}
      <thead role="rowgroup" className={cn("max-md:sr-only", stickyHead && "md:sticky md:top-0 md:z-10")}>
        {/* biome-ignore lint/a11y/noRedundantRoles: see above */}
        <tr role="row" className={cn("border-b", stickyHead && "md:bg-surface-raised")}>
          {columns.map(({ key, header, align, className: width }) => (
            <th
              key={key}
              // biome-ignore lint/a11y/noRedundantRoles: see above
              role="columnheader"
              scope="col"
              className={cn(
                "h-10 px-3 text-start font-medium text-muted-foreground text-xs first:ps-4 last:pe-4",
                align === "end" && "text-end",
                width,
              )}
            >
              {header}
            </th>
          ))}
        </tr>
      </thead>
      {/* biome-ignore lint/a11y/noRedundantRoles: see above */}
      <tbody role="rowgroup" className="max-md:block">
        {rows.map((row) => (
          <tr
            key={rowKey(row)}
            // biome-ignore lint/a11y/noRedundantRoles: see above
            role="row"
            className={cn(
              "border-b last:border-b-0 max-md:relative max-md:grid max-md:gap-1 max-md:px-4 max-md:py-3 md:h-11",
              rowClassName?.(row),
            )}
          >
            {columns.map((column) => (
              <Cell key={column.key} column={column} row={row} />
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Cell<Row>({ column, row }: { column: Column<Row>; row: Row }) {
  const { header, cell, isRowHeader, unlabelled, align, className } = column;
  const Tag = isRowHeader ? "th" : "td";
  return (
    <Tag
      role={isRowHeader ? "rowheader" : "cell"}
      {...(isRowHeader && { scope: "row" })}
      className={cn(
        "min-w-0 text-start align-middle font-normal [overflow-wrap:anywhere] md:px-3 md:py-2 md:last:pe-4 md:first:ps-4",
        !isRowHeader && !unlabelled && "max-md:flex max-md:items-baseline max-md:justify-between max-md:gap-4",
        // On a phone it is the block's head, whatever column it is.
        isRowHeader && "font-medium max-md:order-first",
        align === "end" && "md:text-end",
        className,
      )}
    >
      {!isRowHeader && !unlabelled && (
        <span aria-hidden className="shrink-0 text-muted-foreground md:hidden">
          {header}
        </span>
      )}
      {unlabelled || isRowHeader ? cell(row) : <span className="min-w-0 max-md:text-end">{cell(row)}</span>}
    </Tag>
  );
}
