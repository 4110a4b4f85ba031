import { ChevronRightIcon } from "lucide-react";
import { Collapsible as Primitive } from "radix-ui";
import type { ComponentProps } from "react";
import { cn } from "@/lib/cn";

export const Collapsible = Primitive.Root;

/** The line that folds what follows out and in. */
export function CollapsibleTrigger({ className, children, ...props }: ComponentProps<typeof Primitive.Trigger>) {
  return (
    <Primitive.Trigger
      className={cn(
        "group flex h-11 min-w-0 items-center gap-2 rounded-md font-semibold text-sm hover:text-primary md:h-9",
        className,
      )}
      {...props}
    >
      <ChevronRightIcon
        aria-hidden
        className="size-4 shrink-0 text-muted-foreground transition-transform duration-150 group-data-[state=open]:rotate-90 rtl:-scale-x-100"
      />
      {children}
    </Primitive.Trigger>
  );
}

export function CollapsibleContent({ className, ...props }: ComponentProps<typeof Primitive.Content>) {
  return <Primitive.Content className={cn("data-[state=open]:animate-unfold", className)} {...props} />;
}
