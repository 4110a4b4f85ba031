import type { ComponentProps } from "react";
import { cn } from "@/lib/cn";

/** Holds the place of what is being loaded. Decoration only: the container says what is loading. */
export function Skeleton({ className, ...props }: ComponentProps<"div">) {
  return <div aria-hidden className={cn("animate-pulse rounded-md bg-muted", className)} {...props} />;
}
