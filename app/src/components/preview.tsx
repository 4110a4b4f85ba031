import type { ReactNode } from "react";
import { cn } from "@/lib/cn";

interface PreviewProps {
  label: string;
  className?: string;
  children: ReactNode;
}

/** How what is being edited will look. Nothing in it can be pressed. */
export function Preview({ label, className, children }: PreviewProps) {
  return (
    <figure className="grid min-w-0 content-start gap-2">
      <figcaption className="font-medium text-sm leading-none">{label}</figcaption>
      <div inert className={cn("min-w-0 overflow-hidden rounded-lg border bg-background", className)}>
        {children}
      </div>
    </figure>
  );
}
