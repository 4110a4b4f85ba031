import type { ComponentProps } from "react";
import { cn } from "@/lib/cn";

// 16 px below the tablet width: iOS zooms the page into any smaller field.
export const field =
  "w-full min-w-0 rounded-md border border-input bg-surface-raised px-3 text-base text-foreground shadow-xs transition-colors placeholder:text-muted-foreground focus-visible:border-ring focus-visible:outline-2 focus-visible:outline-offset-0 focus-visible:outline-ring disabled:cursor-not-allowed disabled:opacity-55 aria-invalid:border-destructive aria-invalid:focus-visible:outline-destructive md:text-sm";

export function Input({ className, ...props }: ComponentProps<"input">) {
  return <input data-slot="input" dir="auto" className={cn(field, "h-11 md:h-10", className)} {...props} />;
}

/** Grows with its text, to a limit. */
export function Textarea({ className, ...props }: ComponentProps<"textarea">) {
  return (
    <textarea
      data-slot="textarea"
      dir="auto"
      className={cn(field, "field-sizing-content max-h-80 min-h-24 resize-y py-2 leading-relaxed", className)}
      {...props}
    />
  );
}

/** A day, as `YYYY-MM-DD` or "" for none. The browser's own: it knows the person's calendar and keyboard. */
export function DateInput(props: Omit<ComponentProps<"input">, "type">) {
  // Further than any plan goes: a year of five digits is a slip of the finger.
  return <Input type="date" min="1900-01-01" max="2199-12-31" {...props} />;
}
