import { cloneElement, type ReactElement, type ReactNode, useId } from "react";
import { Label } from "@/components/ui/label";
import { cn } from "@/lib/cn";

interface ControlProps {
  id?: string;
  "aria-invalid"?: boolean;
  "aria-describedby"?: string | undefined;
  "aria-required"?: boolean;
}

interface FormFieldProps {
  label: ReactNode;
  error?: string | undefined;
  hint?: ReactNode;
  required?: boolean;
  /** How much of how many characters is used; shown when it becomes tight. */
  limit?: { used: number; of: number };
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
  limit,
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
    // At the top: beside a field with an error this one keeps its height.
    <div className={cn("grid min-w-0 content-start gap-2", className)}>
      {layout === "inline" ? (
        <div className="flex items-start gap-2.5">
          {control}
          <Label htmlFor={id} className="font-normal leading-snug">
            {label}
          </Label>
        </div>
      ) : (
        <>
          <span className="flex items-baseline justify-between gap-3">
            <Label id={`${id}-label`} htmlFor={id} onClick={() => focusEditor(id)}>
              {label}
            </Label>
            {limit && <CharacterCount {...limit} />}
          </span>
          {control}
        </>
      )}
      {hintId && (
        <div id={hintId} className="text-muted-foreground text-sm">
          {hint}
        </div>
      )}
      {error && (
        <p id={errorId} className="text-destructive text-sm">
          {error}
        </p>
      )}
    </div>
  );
}

/** A press on its label focuses every control but a rich text's, which is no form control to the browser. */
function focusEditor(id: string) {
  const control = document.getElementById(id);
  if (control?.isContentEditable) control.focus();
}

/** From four fifths on: before that it is noise. */
function CharacterCount({ used, of }: { used: number; of: number }) {
  if (used < of * 0.8) return null;
  return (
    <span
      role="status"
      className={cn("text-xs tabular-nums", used > of ? "font-medium text-destructive" : "text-muted-foreground")}
    >
      {used.toLocaleString("en-US")} / {of.toLocaleString("en-US")}
    </span>
  );
}
