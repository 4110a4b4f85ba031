import type { ComponentProps } from "react";
import { cn } from "@/lib/cn";

// 16 px below the tablet width: iOS zooms the page into any smaller field.
const field =
  "w-full min-w-0 rounded-md border border-input bg-surface-raised px-3 text-base text-foreground shadow-xs transition-colors placeholder:text-muted-foreground focus-visible:border-ring focus-visible:outline-2 focus-visible:outline-offset-0 focus-visible:outline-ring disabled:cursor-not-allowed disabled:opacity-55 aria-invalid:border-destructive aria-invalid:focus-visible:outline-destructive md:text-sm";

export function Input({ className, ...props }: ComponentProps<"input">) {
  return <input data-slot="input" className={cn(field, "h-10", className)} {...props} />;
}

export function Textarea({ className, ...props }: ComponentProps<"textarea">) {
  return (
    <textarea
      data-slot="textarea"
      className={cn(field, "field-sizing-content max-h-80 min-h-28 resize-y py-2 leading-relaxed", className)}
      {...props}
    />
  );
}
