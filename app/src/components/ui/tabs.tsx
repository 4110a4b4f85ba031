import { Tabs as Primitive } from "radix-ui";
import type { ComponentProps } from "react";
import { cn } from "@/lib/cn";

export const Tabs = Primitive.Root;

interface TabsListProps extends ComponentProps<typeof Primitive.List> {
  /** `segments` for two forms of one thing, `line` for the parts of a page. */
  look?: "segments" | "line";
}

export function TabsList({ className, look = "segments", ...props }: TabsListProps) {
  return (
    <Primitive.List
      data-slot="tabs"
      data-look={look}
      className={cn(
        "group/tabs",
        look === "segments"
          ? "grid auto-cols-fr grid-flow-col gap-1 rounded-lg bg-muted p-1"
          : // More tabs than fit can be swiped; the line below goes on.
            "flex gap-1 overflow-x-auto border-b [scrollbar-width:none]",
        className,
      )}
      {...props}
    />
  );
}

export function TabsTrigger({ className, ...props }: ComponentProps<typeof Primitive.Trigger>) {
  return (
    <Primitive.Trigger
      className={cn(
        "inline-flex h-11 items-center justify-center gap-2 whitespace-nowrap px-3 font-medium text-muted-foreground text-sm transition-colors hover:text-foreground data-[state=active]:text-foreground md:h-9",
        "group-data-[look=segments]/tabs:rounded-md group-data-[look=segments]/tabs:data-[state=active]:bg-surface-raised group-data-[look=segments]/tabs:data-[state=active]:shadow-xs dark:group-data-[look=segments]/tabs:data-[state=active]:bg-border",
        "group-data-[look=line]/tabs:-mb-px group-data-[look=line]/tabs:border-b-2 group-data-[look=line]/tabs:border-b-transparent group-data-[look=line]/tabs:outline-offset-[-2px] group-data-[look=line]/tabs:data-[state=active]:border-b-primary",
        className,
      )}
      {...props}
    />
  );
}

export const TabsContent = Primitive.Content;
