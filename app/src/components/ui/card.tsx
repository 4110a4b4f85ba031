import type { ComponentProps } from "react";
import { cn } from "@/lib/cn";

export function Card({ className, ...props }: ComponentProps<"div">) {
  return (
    <div data-slot="card" className={cn("rounded-xl border bg-surface-raised shadow-card", className)} {...props} />
  );
}
