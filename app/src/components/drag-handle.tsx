import { GripVerticalIcon } from "lucide-react";
import { cn } from "@/lib/cn";

/** Where a row of `use-drag-order` is taken hold of; shown while the pointer is over the row. By keyboard, rows move through their menu. */
export function DragHandle({ className }: { className: string }) {
  return (
    <span
      draggable
      data-handle
      aria-hidden
      title="Drag to reorder"
      className={cn(
        // Above a checkbox beside it, whose area for presses is larger than its box.
        "absolute z-10 grid h-6 w-4 cursor-grab place-items-center rounded-sm text-muted-foreground opacity-0 transition-opacity active:cursor-grabbing pointer-coarse:hidden print:hidden",
        className,
      )}
    >
      <GripVerticalIcon className="size-4" />
    </span>
  );
}
