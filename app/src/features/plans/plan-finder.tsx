import { useId } from "react";
import { Button } from "@/components/ui/button";
import { Input } from "@/components/ui/input";
import { Select } from "@/components/ui/select";
import { orders, type PlanOrder } from "./plan-order";

interface PlanFinderProps {
  /** With search and order; else only the way to the archive. */
  full: boolean;
  wanted: string;
  onWantedChange: (wanted: string) => void;
  order: PlanOrder;
  onOrderChange: (order: PlanOrder) => void;
  archivedCount: number;
  showsArchived: boolean;
  onShowsArchivedChange: (shows: boolean) => void;
  /** How many plans are shown. */
  found: number;
}

/** Search, order and archive, above the plans. */
export function PlanFinder(props: PlanFinderProps) {
  const { full, wanted, order, archivedCount, showsArchived, found } = props;
  const searchId = useId();
  const orderId = useId();
  const isArchive = showsArchived && archivedCount > 0;
  return (
    <search className="mb-4 grid gap-2">
      <div className="flex flex-wrap items-center gap-3">
        {full && (
          <>
            <div className="relative min-w-48 grow basis-64">
              <label htmlFor={searchId} className="sr-only">
                Search plans
              </label>
              <Input
                id={searchId}
                type="search"
                autoComplete="off"
                placeholder="Search plans..."
                value={wanted}
                onChange={(event) => props.onWantedChange(event.target.value)}
              />
            </div>
            <label htmlFor={orderId} className="sr-only">
              Order of plans
            </label>
            <Select
              id={orderId}
              className="w-44 max-sm:grow"
              value={order}
              onChange={(event) => props.onOrderChange(event.target.value as PlanOrder)}
            >
              {Object.entries(orders).map(([value, label]) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </Select>
          </>
        )}
        {archivedCount > 0 && (
          <Button variant="secondary" aria-pressed={isArchive} onClick={() => props.onShowsArchivedChange(!isArchive)}>
            {isArchive ? "Back to current plans" : `Archived (${archivedCount})`}
          </Button>
        )}
      </div>
      <p role="status" className="text-muted-foreground text-sm empty:hidden">
        {found === 0 && (wanted.trim() ? "No plan has this in its title." : "All plans are archived.")}
      </p>
    </search>
  );
}
