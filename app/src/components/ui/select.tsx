import { ChevronDownIcon } from "lucide-react";
import type { ComponentProps } from "react";
import { field } from "@/components/ui/input";
import { cn } from "@/lib/cn";

/** The browser's own list, which every phone and screen reader knows how to show. */
export function Select({ className, ...props }: ComponentProps<"select">) {
  return (
    <div className={cn("relative", className)}>
      <select data-slot="select" className={cn(field, "h-11 appearance-none pe-9 md:h-10")} {...props} />
      <ChevronDownIcon
        aria-hidden
        className="pointer-events-none absolute end-3 top-1/2 size-4 -translate-y-1/2 text-muted-foreground"
      />
    </div>
  );
}
