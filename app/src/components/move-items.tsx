import { ArrowDownIcon, ArrowUpIcon } from "lucide-react";
import { DropdownMenuItem } from "@/components/ui/dropdown-menu";

export type Step = "up" | "down";

interface MoveItemsProps {
  first: boolean;
  last: boolean;
  onMove: (step: Step) => void;
}

/** Items of a row's menu; none where it is the only row. */
export function MoveItems({ first, last, onMove }: MoveItemsProps) {
  if (first && last) return null;
  return (
    <>
      <DropdownMenuItem disabled={first} onSelect={() => onMove("up")}>
        <ArrowUpIcon aria-hidden />
        Move up
      </DropdownMenuItem>
      <DropdownMenuItem disabled={last} onSelect={() => onMove("down")}>
        <ArrowDownIcon aria-hidden />
        Move down
      </DropdownMenuItem>
    </>
  );
}
