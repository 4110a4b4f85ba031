import { cloneElement, type ReactElement, useId } from "react";
import { Label } from "@/components/ui/label";
import { cn } from "@/lib/cn";

interface ControlProps {
  id?: string;
  "aria-invalid"?: boolean;
  "aria-describedby"?: string | undefined;
  "aria-required"?: boolean;
}

interface FormFieldProps {
  label: string;
  error?: string | undefined;
  hint?: string;
  required?: boolean;
  /** `inline` puts the control before its label, as a checkbox has it. */
  layout?: "stacked" | "inline";
  className?: string;
  /** One control, which receives the ids and the state. */
  children: ReactElement<ControlProps>;
}

/** A label, a control, a hint and an error, tied together for those who cannot see that they belong together. */
export function FormField({
  label,
  error,
  hint,
  required = false,
  layout = "stacked",
  className,
  children,
}: FormFieldProps) {
  const id = useId();
  // The error says what the hint said, and more to the point.
  const hintId = hint && !error ? `${id}-hint` : undefined;
  const errorId = error ? `${id}-error` : undefined;
  const control = cloneElement(children, {
    id,
    "aria-invalid": error !== undefined,
    // Only what is on the page: a reference to nothing is announced as nothing, or not at all.
    "aria-describedby": [hintId, errorId].filter(Boolean).join(" ") || undefined,
    ...(required && { "aria-required": true }),
  });
  return (
    <div className={cn("grid gap-2", className)}>
      {layout === "inline" ? (
        <div className="flex items-start gap-2.5">
          {control}
          <Label htmlFor={id} className="font-normal leading-snug">
            {label}
          </Label>
        </div>
      ) : (
        <>
          <Label htmlFor={id}>{label}</Label>
          {control}
        </>
      )}
      {hintId && (
        <p id={hintId} className="text-muted-foreground text-sm">
          {hint}
        </p>
      )}
      {error && (
        <p id={errorId} className="text-destructive text-sm">
          {error}
        </p>
      )}
    </div>
  );
}
